//! What packages install beside the program, made from the one table of the command line: shell completions and the
//! manual page.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

/// What the table of the command line does not say, in the macros of `man(7)`.
const MORE: &str = r#".SH SIGNALS
.TP
SIGTERM, SIGINT
Drain: accept nothing more, end each connection once it is owed nothing, and all of them by limits.shutdown_timeout. A
second one ends at once.
.TP
SIGHUP
Read the configuration and all files that it names again, and go over to them: listeners and backends come, go and change,
and connections stay unless theirs is gone. When something is wrong, all stays as it was.
.TP
SIGUSR1
Go on logging in the file that has the name of log.target now, for logrotate. Nothing where the log is no file.
.TP
SIGUSR2
Start the program anew from where it was started, with the same arguments and the configuration as it is then, hand it the
listening sockets, and drain once it is ready. When it fails, or is not ready within a minute, all stays as it was.
.SH "EXIT STATUS"
.TP
0
As asked. Of \fBdoctor\fR: nothing needs attention.
.TP
1
The configuration, a file that it names, or the system: the message says which. Of \fBdoctor\fR: ringwall cannot start.
.TP
2
The command line. Of \fBdoctor\fR: ringwall can start, but something needs attention.
.TP
78
io_uring cannot be used here.
.SH ENVIRONMENT
.TP
RINGWALL_LOG
Wins over log.level, and takes filters such as "warn,ringwall::session=info".
.TP
NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID
Where the service manager hears of readiness, reloads, the end, and signs of life; see \fBsd_notify\fR(3).
.TP
LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID
Sockets that it hands over; see \fBsd_listen_fds\fR(3).
.TP
CREDENTIALS_DIRECTORY
Where the files are that the configuration calls "credential:NAME"; see LoadCredential= in \fBsystemd.exec\fR(5).
.SH FILES
.TP
/etc/ringwall/ringwall.toml
The configuration that the systemd unit runs with.
.TP
/usr/share/doc/ringwall/ringwall.toml
Every key, with its default, unit and bounds, and why it is there.
.SH "SEE ALSO"
\fBvalkey\-server\fR(1), \fBredis\-server\fR(1), \fBsystemd.service\fR(5), \fBio_uring\fR(7)
"#;

/// The completions for a shell.
#[must_use]
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ringwall", &mut script);
    text(script)
}

/// The manual page, all commands in one.
#[must_use]
pub fn manual_page() -> String {
    let mut program = Cli::command();
    program.build();
    let page = Man::new(program.clone()).section("1").manual("ringwall").date("");
    let mut roff = Vec::new();
    let head = page
        .render_title(&mut roff)
        .and_then(|()| page.render_name_section(&mut roff))
        .and_then(|()| page.render_synopsis_section(&mut roff))
        .and_then(|()| page.render_description_section(&mut roff));
    head.expect("memory takes everything");
    let shown = program.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let commands: String = shown.map(command_of).collect();
    format!("{}.SH COMMANDS\n{commands}{MORE}", text(roff))
}

/// A command with its options, as a part of a section.
fn command_of(command: &Command) -> String {
    let (name, about) = (command.get_name(), command.get_about().map(ToString::to_string).unwrap_or_default());
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options).expect("memory takes everything");
    // What is a section of a page of its own is a part of this one.
    let options = text(options).replace(".SH OPTIONS\n", "");
    format!(".SS \"ringwall {name}\"\n{about}.\n{options}")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("what is made of text is text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_option_and_each_section_once() {
        let page = manual_page();
        for text in [
            "ringwall run",
            "ringwall check",
            "ringwall doctor",
            "ringwall top",
            "unsafe\\-key\\-log",
            "\\-\\-json",
            "RINGWALL_LOG",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "SIGNALS", "FILES"] {
            assert_eq!(page.matches(&format!("\n.SH {section}\n")).count(), 1, "{section}: {page}");
        }
        assert!(!page.contains("OPTIONS\n"), "{page}");
    }

    #[test]
    fn each_shell_completes_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = completions(shell);
            assert!(script.contains("doctor") && script.contains("unsafe-key-log"), "{shell}");
        }
    }
}
