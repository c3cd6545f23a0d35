//! A launcher process for programs that cannot call [`switchboard_launch::launcher_main`] first in
//! their own `main`: pass its path to `Launcher::start`.

fn main() {
    switchboard_launch::launcher_main();
}
