//! A launcher program for embedders that cannot call [`switchboard::launcher_main`] first in their
//! own `main`.

fn main() {
    switchboard::launcher_main();
}
