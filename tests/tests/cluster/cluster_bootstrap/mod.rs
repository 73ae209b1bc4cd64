//! Clusters whose masters are static pods: the first node starts its master, others join, and the cluster survives restarts.

mod first;
mod ha;
mod stage;
