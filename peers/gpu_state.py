"""State of the GPU from nvidia-smi: clocks, power, temperature, throttle reasons."""
from measure import capture

FIELDS = {"gpu": "name", "driver": "driver_version", "state": "pstate", "SM MHz": "clocks.sm",
          "memory MHz": "clocks.mem", "power W": "power.draw", "limit W": "power.limit",
          "degrees C": "temperature.gpu", "throttle reasons": "clocks_event_reasons.active"}
REASONS = {0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
           0x10: "sync boost", 0x20: "software thermal", 0x40: "hardware thermal",
           0x80: "power brake", 0x100: "display clocks"}


def reasons(mask):
    """Decodes the bit mask: 0x4 is "power cap". Unknown bits stay hexadecimal."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return mask
    names = [name for bit, name in REASONS.items() if bits & bit]
    left = bits & ~sum(REASONS)
    return ", ".join(names + [hex(left)] * bool(left)) or "none"


def parse(line):
    values = [value.strip() for value in line.split(",")]
    facts = dict(zip(FIELDS, values))
    facts["throttle reasons"] = reasons(facts["throttle reasons"])
    return facts


def state():
    """State of the first GPU; None if there is none."""
    said = capture(["nvidia-smi", "--query-gpu=" + ",".join(FIELDS.values()),
                    "--format=csv,noheader,nounits", "--id=0"])
    line = said.stdout.strip()
    return parse(line) if said.returncode == 0 and line.count(",") == len(FIELDS) - 1 else None


def text(facts):
    return ", ".join(f"{key} {value}" for key, value in facts.items()) if facts else "no GPU"


def clocks(results):
    """The lowest SM clock after a turn, with the reasons that held it down; "" without a GPU."""
    states = [result["gpu"] for result in results if result.get("gpu")]
    if not states:
        return ""
    lowest = min(states, key=lambda s: float(s["SM MHz"]))
    held = {s["throttle reasons"] for s in states} - {"none", "idle"}
    return "; ".join([lowest["SM MHz"], *sorted(held)])
