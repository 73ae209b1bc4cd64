//! Tests that need more than one room.
