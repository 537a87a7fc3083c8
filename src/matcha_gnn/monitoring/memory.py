"""How much of the host's memory is used and free, as the system says it."""


def available_memory() -> int:
    """Bytes that can be taken without swapping; 0 where the system does not say."""
    return system_figure("/proc/meminfo", "MemAvailable")


def system_figure(path: str, name: str) -> int:
    """A line such as `VmRSS: 1000 kB` of a file of the system, in bytes; 0 without it."""
    try:
        with open(path) as file:
            found = next(line for line in file if line.startswith(name))
    except (OSError, StopIteration):
        return 0
    return 1024 * int(found.split()[1])
