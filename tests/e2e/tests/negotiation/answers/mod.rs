//! Answers and their consequences: the three answers, silence, chains, deadlines, and pods that cannot be
//! asked.

mod chain;
mod deadline;
mod delay;
mod refusal;
mod target;
mod unasked;
