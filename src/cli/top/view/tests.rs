//! Frames as they are seen, to the last cell.

use std::time::Duration;

use ratatui_core::backend::TestBackend;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

use super::*;
use crate::cli::top::change::Change;
use crate::cli::top::examples::{multiplexed, picture, session};
use crate::cli::top::screen::Notice;
use crate::cli::top::sharing::Sharing;
use crate::control::admin::api::Shard;

fn frame_of(screen: &Screen, picture: Option<&Picture>, (width, height): (u16, u16), colours: bool) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let scene = Scene {
        screen,
        picture,
        now: Time::from_nanos(9_000_000_000),
        interval: Duration::from_secs(1),
        place: "unix:/run/ringwall/admin.sock",
        colours,
        live: true,
    };
    terminal.draw(|frame| scene.draw(frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

fn shown(screen: &Screen, picture: Option<&Picture>, size: (u16, u16)) -> String {
    text(&frame_of(screen, picture, size, false))
}

fn line(frame: &str, number: usize) -> &str {
    frame.lines().nth(number).unwrap()
}

#[test]
fn a_terminal_of_80_by_24_shows_everything() {
    let mut screen = Screen::new();
    screen.mark(1, &picture());
    assert_eq!(
        shown(&screen, Some(&picture()), (80, 24)),
        "\
ringwall 0.1.0: serving                                                 every 1s
Sessions 3, 12.0 new/s   Handshakes 8.1/s, 0.5 failed/s   Rejected 0.0/s
Clients  in  1.2 MiB/s  out 34.1 MiB/s   Servers  in 33.9 MiB/s  out  1.1 MiB/s

  SHARD       BUSY                                SESSIONS   PENDING  HANDSHAKES
  0           [|||||||||||||||||||||||| ]  95 %          2         1           0
  1           [|||||||                  ]  25 %          1         0           3

  LISTENER          ADDRESS                 BACKEND        STATE        SESSIONS
  public            10.0.1.1:6380           cache          open                2
  internal          10.0.1.1:6381           cache          open                1

  BACKEND        SERVER                          ROLE     STATE      CONNECTIONS
  cache          a1                              primary  up                   3
  cache          b2                              replica  down                 0

3 sessions   1 stalled in all   stalled, then busiest first
> CLIENT                  LISTENER       STATE        AGE IDLE     IN/s    OUT/s
> 10.0.3.9:40002          internal       stalled       2h  42s      0 B      0 B
  192.168.100.100:40001   public         relaying     75s   0s    512 B 34.1 MiB
  192.168.100.100:40001   public         relaying     75s   0s  2.0 KiB    100 B


q quit  ? help  Tab pane  / filter  s sort  x close  d drain  e enable
"
    );
}

#[test]
fn listeners_whose_clients_share_connections_have_a_pane_of_their_own() {
    let mut picture = multiplexed();
    let screen = Screen::new();
    let frame = shown(&screen, Some(&picture), (80, 24));
    assert_eq!(
        frame.lines().skip(2).take(17).collect::<Vec<_>>().join("\n"),
        "\
Clients  in  1.2 MiB/s  out 34.1 MiB/s   Servers  in 33.9 MiB/s  out  1.1 MiB/s

  SHARD       BUSY                                SESSIONS   PENDING  HANDSHAKES
  0           [|||||||||||||||||||||||| ]  95 %          2         1           0
  1           [|||||||                  ]  25 %          1         0           3
  LISTENER          ADDRESS                 BACKEND        STATE        SESSIONS
  public            10.0.1.1:6380           cache          open                2
  internal          10.0.1.1:6381           cache          open                1
  MULTIPLEXED                  SHARED     OWN  SHARED/s  SHARE   BATCH   LATENCY
  internal                          2      11     48210   99 %    14.3    412 us
  BACKEND        SERVER                          ROLE     STATE      CONNECTIONS
  cache          a1                              primary  up                   3
  cache          b2                              replica  down                 0
3 sessions   1 stalled in all   stalled, then busiest first
> CLIENT                  LISTENER       STATE        AGE IDLE     IN/s    OUT/s
  10.0.3.9:40002          internal       stalled       2h  42s      0 B      0 B
  192.168.100.100:40001   public         relaying     75s   0s    512 B 34.1 MiB"
    );
    picture.sharing[0] = Sharing::default();
    let frame = shown(&screen, Some(&picture), (80, 24));
    let words: Vec<_> = line(&frame, 11).split_whitespace().collect();
    assert_eq!(words, ["internal", "2", "11", "-", "-", "-", "-"]);
}

#[test]
fn a_wide_terminal_says_more_of_sessions_and_servers() {
    let frame = shown(&Screen::new(), Some(&picture()), (140, 24));
    let server = frame.lines().find(|line| line.contains(" b2 ")).unwrap();
    for text in ["10.0.0.2:6379", "replica", "down", "it does not answer in time"] {
        assert!(server.contains(text), "{frame}");
    }
    let session = frame.lines().find(|line| line.contains(" 1-7-2 ")).unwrap();
    for text in ["192.168.100.100:40001", "10.0.0.1:6379", "billing", "2.0 KiB"] {
        assert!(session.contains(text), "{frame}");
    }
}

#[test]
fn a_narrow_terminal_keeps_what_matters_most() {
    assert_eq!(
        shown(&Screen::new(), Some(&picture()), (44, 20)),
        "\
ringwall 0.1.0: serving             every 1s
Sessions 3, 12.0 new/s
Clients  in  1.2 MiB/s  out 34.1 MiB/s

  SHARD               SESSIONS   PENDING
  0            95 %          2         1
  1            25 %          1         0
  LISTENER             STATE        SESSIONS
  public               open                2
  internal             open                1
  SERVER 1/2                      STATE
  a1                              up
3 sessions   1 stalled in all
> CLIENT                STATE          OUT/s
  10.0.3.9:40002        stalled          0 B
  192.168.100.100:40001 relaying    34.1 MiB
  192.168.100.100:40001 relaying       100 B


q quit  ? help  Tab pane  / filter  s sort
"
    );
}

#[test]
fn a_low_terminal_shows_one_pane() {
    let mut screen = Screen::new();
    let sessions = "\
ringwall 0.1.0: serving
Sessions 3, 12.0 new/s
Clients  in  1.2 MiB/s  out 34

3 sessions   1 stalled in all
> CLIENT                 OUT/s
  10.0.3.9:40002           0 B
  192.168.100.100:40~ 34.1 MiB
  192.168.100.100:40~    100 B

q quit  ? help  Tab pane
";
    assert_eq!(shown(&screen, Some(&picture()), (30, 11)), sessions);
    screen.turn(false, Some(&picture()));
    screen.turn(false, Some(&picture()));
    let listeners = shown(&screen, Some(&picture()), (60, 8));
    assert_eq!(
        line(&listeners, 4).split_whitespace().collect::<Vec<_>>(),
        [">", "LISTENER", "ADDRESS", "STATE", "SESSIONS"]
    );
    assert!(line(&listeners, 6).contains("internal"), "{listeners}");
}

#[test]
fn no_size_is_too_small_to_be_drawn() {
    let mut help = Screen::new();
    help.mode = Mode::Help;
    for screen in [Screen::new(), help] {
        for picture in [Some(picture()), None] {
            for size in (0..40).flat_map(|width| (0..30).map(move |height| (width, height))) {
                frame_of(&screen, picture.as_ref(), size, true);
            }
        }
    }
}

#[test]
fn many_shards_leave_room_for_sessions_and_scroll_to_the_mark() {
    let mut picture = picture();
    let shard = |shard| Shard { shard, connections: 0, pending: 0, handshakes: 0, busy: 0.0 };
    picture.sample.status.shards = (0..64).map(shard).collect();
    let mut screen = Screen::new();
    screen.turn(true, Some(&picture));
    let frame = shown(&screen, Some(&picture), (80, 24));
    assert!(line(&frame, 4).starts_with("> SHARD 5/64  BUSY "), "{frame}");
    assert!(line(&frame, 5).starts_with("  0  ") && line(&frame, 9).starts_with("  4  "), "{frame}");
    assert!(frame.contains("192.168.100.100:40001"), "{frame}");
    screen.mark(isize::MAX, &picture);
    let frame = shown(&screen, Some(&picture), (80, 24));
    assert!(line(&frame, 5).starts_with("  59 ") && line(&frame, 9).starts_with("> 63 "), "{frame}");
}

#[test]
fn what_is_asked_and_what_became_of_it_stand_in_the_last_line() {
    let mut screen = Screen::new();
    let last = |screen: &Screen| line(&shown(screen, Some(&picture()), (80, 24)), 23).to_owned();
    screen.mode = Mode::Asking(Change::Close { session: "0-2-1".into(), client: "10.0.3.9:40002".into() });
    assert_eq!(last(&screen), "Close session 0-2-1 of 10.0.3.9:40002? y/n");
    screen.mode = Mode::Filtering(String::new());
    screen.filter = "10.0".to_owned();
    assert_eq!(last(&screen), "Client or listener: 10.0_   Enter keeps it, Esc does not");
    screen.mode = Mode::Watching;
    screen.notice = Some(Notice { good: true, text: "session 0-2-1 closed".to_owned() });
    assert_eq!(last(&screen), "session 0-2-1 closed");
    assert_eq!(
        line(&shown(&screen, Some(&picture()), (80, 24)), 16),
        "1 sessions   with \"10.0\"   1 stalled in all   stalled, then busiest first"
    );
}

#[test]
fn a_ringwall_that_does_not_answer_is_told_over_what_was_seen_last() {
    let mut screen = Screen::new();
    let why = "unix:/run/ringwall/admin.sock: No such file or directory (os error 2); ringwall does not run, or it is \
               elsewhere";
    assert_eq!(line(&shown(&screen, None, (80, 24)), 0), "Asking unix:/run/ringwall/admin.sock ...");
    screen.link = Link::Lost { since: Time::from_nanos(6_000_000_000), why: why.to_owned() };
    let frame = shown(&screen, Some(&picture()), (80, 24));
    let first = "NO ANSWER for 3s, asking again every second: unix:/run/ringwall/admin.sock: No s";
    assert_eq!(line(&frame, 0), first);
    assert!(frame.contains("10.0.3.9:40002"), "{frame}");
    let frame = shown(&screen, None, (80, 24));
    assert_eq!(line(&frame, 0), first);
    assert_eq!(line(&frame, 2), "unix:/run/ringwall/admin.sock: No such file or directory (os error 2); ringwall");
    assert_eq!(line(&frame, 3), "does not run, or it is elsewhere");
}

#[test]
fn changes_that_are_off_and_a_failed_reload_stand_in_the_first_line() {
    let mut picture = picture();
    picture.sample.status.changes_allowed = false;
    picture.sample.status.reload_success = false;
    let frame = shown(&Screen::new(), Some(&picture), (80, 24));
    let first = "ringwall 0.1.0: serving, LAST RELOAD FAILED            changes are off, every 1s";
    assert_eq!(line(&frame, 0), first);
}

#[test]
fn sessions_that_were_not_all_looked_at_are_said_to_be_so() {
    let mut picture = picture();
    picture.sample.complete = false;
    let frame = shown(&Screen::new(), Some(&picture), (120, 24));
    assert!(frame.contains("only 3 looked at: filter by an address or listener"), "{frame}");
}

#[test]
fn the_help_fits_80_by_24() {
    let mut screen = Screen::new();
    screen.mode = Mode::Help;
    let frame = shown(&screen, Some(&picture()), (80, 24));
    for text in HELP {
        assert!(frame.contains(text), "{text}: {frame}");
    }
    assert_eq!(line(&frame, 23), "Any key goes back");
}

#[test]
fn colours_tell_what_is_good_and_bad_and_without_them_bold_does() {
    let at = |buffer: &Buffer, text: &str| {
        let width = usize::from(buffer.area.width);
        let row = super::text(buffer).lines().position(|line| line.contains(text)).unwrap();
        let column = super::text(buffer).lines().nth(row).unwrap().find(text).unwrap();
        buffer.content[row * width + column].clone()
    };
    let coloured = frame_of(&Screen::new(), Some(&picture()), (80, 24), true);
    for (text, colour) in
        [("up  ", Color::Green), ("down  ", Color::Red), ("stalled  ", Color::Red), ("cache", Color::Reset)]
    {
        assert_eq!(at(&coloured, text).fg, colour, "{text}");
    }
    let plain = frame_of(&Screen::new(), Some(&picture()), (80, 24), false);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(at(&plain, "down  ").modifier.contains(Modifier::BOLD));
    assert!(!at(&plain, "up  ").modifier.contains(Modifier::BOLD));
}

#[test]
fn what_a_client_says_of_itself_does_not_reach_the_terminal_as_a_command() {
    let mut picture = picture();
    let mut sly = session("0-9-9", 1, 1);
    sly.client_identity = Some("a\u{1b}]0;owned\u{7}b".to_owned());
    picture.sample.sessions = vec![sly];
    picture.paces.truncate(1);
    let frame = shown(&Screen::new(), Some(&picture), (140, 24));
    assert!(frame.contains("a]0;ownedb") && !frame.contains(['\u{1b}', '\u{7}']), "{frame}");
}
