//! What the control groups of this process leave it (cgroup v2, `Documentation/admin-guide/cgroup-v2.rst` of the kernel).
//!
//! A limit holds for a group and all groups below it, so each is the least of the process's own group and of those
//! above, as far as they can be seen: a container sees its own part of the tree.

use std::path::{Path, PathBuf};

use crate::files;

/// More than any file of `/proc` or of a control group that is read here.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// The control group of a process and those above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Folders, the process's own group first.
    folders: Vec<PathBuf>,
}

impl ControlGroup {
    /// That of this process; `None` without cgroup v2.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let read = |path: &str| text_of(Path::new(path));
        Self::of(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
    }

    /// Reads the two files of `/proc/PID` of these names; see `cgroups(7)` and `proc_pid_mountinfo(5)`.
    fn of(cgroup: &str, mountinfo: &str) -> Option<Self> {
        let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
        let mount = mountinfo.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            (after.split(' ').next() == Some("cgroup2")).then_some((root, point))
        });
        let (root, point) = mount?;
        let point = Path::new(point);
        // What is mounted may be a part of the tree that begins at the group itself, or elsewhere: then it is all there is.
        let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(""));
        // Taken apart, because joining nothing leaves a slash at the end.
        let folders: PathBuf = point.join(below).components().collect();
        let folders = folders.ancestors().take_while(|folder| folder.starts_with(point)).map(Path::to_owned);
        Some(Self { folders: folders.collect() })
    }

    /// Bytes of memory that the process can have together with the others of its groups; `None` without a limit.
    #[must_use]
    pub fn memory_max(&self) -> Option<u64> {
        self.least("memory.max", |text| text.parse().ok())
    }

    /// How many processes and threads there may be in its groups; `None` without a limit.
    #[must_use]
    pub fn tasks_max(&self) -> Option<u64> {
        self.least("pids.max", |text| text.parse().ok())
    }

    /// How many cores' time it may use, in thousandths of a core; `None` without a limit.
    #[must_use]
    pub fn cpu_max_millicores(&self) -> Option<u64> {
        self.least("cpu.max", |text| {
            let (quota, period) = text.split_once(' ')?;
            quota.parse::<u64>().ok()?.checked_mul(1_000)?.checked_div(period.parse().ok()?)
        })
    }

    /// The cores it may run on, as the kernel writes a list of them: `0-3,8`.
    #[must_use]
    pub fn cores(&self) -> Option<String> {
        self.folders.iter().find_map(|folder| text_of(&folder.join("cpuset.cpus.effective")))
    }

    /// The least of what the groups have in the file of this name. `max`, which stands for no limit, is no number.
    fn least(&self, name: &str, read: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        self.folders.iter().filter_map(|folder| read(&text_of(&folder.join(name))?)).min()
    }
}

/// The text of a small file without the blanks around it.
fn text_of(path: &Path) -> Option<String> {
    let contents = files::read(path, FILE_BYTES_MAX).ok()?;
    Some(std::str::from_utf8(&contents.bytes).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folders(cgroup: &str, mountinfo: &str) -> Option<Vec<String>> {
        let group = ControlGroup::of(cgroup, mountinfo)?;
        Some(group.folders.iter().map(|folder| folder.display().to_string()).collect())
    }

    #[test]
    fn the_groups_are_found_where_they_are_mounted() {
        let host = "24 30 0:22 / /sys rw - sysfs sysfs rw\n\
                    35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let service = "0::/system.slice/ringwall.service\n";
        assert_eq!(
            folders(service, host).unwrap(),
            ["/sys/fs/cgroup/system.slice/ringwall.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"]
        );
        // A container with a namespace of its own, and one that is shown its part of the host's tree.
        assert_eq!(folders("0::/\n", host).unwrap(), ["/sys/fs/cgroup"]);
        let part = host.replace("0:30 /", "0:30 /docker/1f");
        assert_eq!(folders("0::/docker/1f\n", &part).unwrap(), ["/sys/fs/cgroup"]);
        assert_eq!(folders("0::/elsewhere\n", &part).unwrap(), ["/sys/fs/cgroup"]);
        // The hybrid of both versions, and version 1 alone.
        let hybrid = host.replace("/sys/fs/cgroup rw", "/sys/fs/cgroup/unified rw");
        assert_eq!(folders("4:memory:/a\n0::/b\n", &hybrid).unwrap()[0], "/sys/fs/cgroup/unified/b");
        assert_eq!(folders("4:memory:/a\n", host), None);
        assert_eq!(folders(service, "24 30 0:22 / /sys rw - sysfs sysfs rw\n"), None);
    }

    #[test]
    fn each_limit_is_the_least_of_all_groups() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("slice/service");
        fs::create_dir_all(&own).unwrap();
        let write =
            |folder: &str, name: &str, text: &str| fs::write(root.path().join(folder).join(name), text).unwrap();
        write("slice/service", "memory.max", "max\n");
        write("slice", "memory.max", "1073741824\n");
        write("", "memory.max", "2147483648\n");
        write("slice/service", "cpu.max", "150000 100000\n");
        write("slice", "cpu.max", "max 100000\n");
        write("slice/service", "pids.max", "max\n");
        write("slice", "cpuset.cpus.effective", "0-3,8\n");
        let folders = [own, root.path().join("slice"), root.path().to_owned()];
        let group = ControlGroup { folders: folders.to_vec() };
        assert_eq!(group.memory_max(), Some(1 << 30));
        assert_eq!((group.cpu_max_millicores(), group.tasks_max()), (Some(1_500), None));
        assert_eq!(group.cores().as_deref(), Some("0-3,8"));
    }
}
