mod address;
mod transport;
