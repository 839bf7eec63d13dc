//! `surge.evacuation.dev/replacement`.

mod crash;
mod moves;
mod stays;
mod unhelped;
