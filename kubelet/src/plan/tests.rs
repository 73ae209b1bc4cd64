//! Tables: what is wanted and there, and what is to be done.
