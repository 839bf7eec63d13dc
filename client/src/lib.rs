//! Ask for evacuations, and answer them.
