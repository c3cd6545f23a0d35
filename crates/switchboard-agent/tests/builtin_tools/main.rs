//! The agent's own tools, called through a host's gate, on real files and processes.
#![allow(clippy::unwrap_used)]

mod call_order;
mod commands;
mod files;
mod fixture;
mod rules;
mod search;
mod web;
