//! A terminal of 80 by 24 in tmux, with `ringwall top` in it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::{PATIENCE, now, run};
use crate::ringwall::binary;

/// A terminal in which `ringwall top` was started, ended when it is dropped.
pub(crate) struct Terminal {
    folder: TempDir,
}

impl Terminal {
    /// Watches whoever listens at `socket`, with these variables, such as `NO_COLOR=1`.
    pub(crate) fn watching(socket: &str, variables: &str) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let script = format!(
            "echo before\n\
             sh -c 'echo $$ >{pid}; exec env -u NO_COLOR {variables} {ringwall} top --socket {socket} --interval 200ms'\n\
             echo \"status $?\"\n\
             stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e echo | tr '\\n' ' '\n\
             echo\n\
             exec cat\n",
            pid = terminal.pid_file().display(),
            ringwall = binary().display(),
        );
        let path = terminal.folder.path().join("watch.sh");
        fs::write(&path, script).unwrap();
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", &format!("sh {}", path.display())]);
        terminal
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.path().join("pid")
    }

    /// Has the tmux of this test do something, and gives what it says.
    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("tmux.sock")).args(["-f", "/dev/null", "-u"]).args(arguments);
        command.env_remove("TMUX");
        let (success, said) = run(command, b"");
        assert!(success, "tmux {arguments:?}: {said}");
        said
    }

    /// Presses keys by their names in tmux, such as `Down`.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// What stands on the screen.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen `holds`, and gives it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let deadline = now() + PATIENCE;
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(now() < deadline, "waited in vain for {what}:\n{screen}");
        }
    }

    /// Waits until this text stands on the screen.
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Sends `ringwall top` a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.pid_file()).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until `ringwall top` has ended well and has left the terminal as it was.
    pub(crate) fn assert_given_back(&self) {
        let screen = self.shows("status ");
        assert!(screen.starts_with("before\nstatus 0\n"), "{screen}");
        let echoes = |screen: &str| screen.lines().any(|line| line.trim_end() == "icanon echo");
        self.until("a terminal that echoes", echoes);
        let format = "#{alternate_on} #{cursor_flag}";
        assert_eq!(self.tmux(&["display-message", "-p", format]), "0 1\n");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("tmux.sock")).arg("kill-server");
        run(command, b"");
    }
}
