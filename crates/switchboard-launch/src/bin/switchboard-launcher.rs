//! A launcher program for embedders that cannot call [`switchboard_launch::launcher_main`] first in their
//! own `main`.

fn main() {
    switchboard_launch::launcher_main();
}
