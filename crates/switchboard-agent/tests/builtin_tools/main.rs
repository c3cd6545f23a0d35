//! The agent's own tools, called through a host's gate, on real files and processes.
#![allow(clippy::unwrap_used)]

mod commands;
mod files;
mod rules;
mod searching;
mod web;
mod world;
