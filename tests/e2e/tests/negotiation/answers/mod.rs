//! What is answered, and what follows: the three answers, silence, chains, deadlines, and pods that cannot be asked.

mod chain;
mod deadline;
mod delay;
mod refusal;
mod target;
mod unasked;
