//! Logins against a scripted authorization server on this machine.
