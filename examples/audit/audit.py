#!/usr/bin/env python3
"""Recompute emissions and savings from the raw export of a ledger, and check its chain.

    lull ledger export --database ledger.db --entries -o ledger.jsonl
    python3 audit.py ledger.jsonl [--from 2026-10-01] [--to 2026-11-01] [--head 4f0c...]

It shares no code with Lull: it is how an auditor would do it, from docs/ledger.md alone. Exit status 0 only if the
chain is whole and each figure agrees to 1e-9.
"""
import argparse
import hashlib
import json
import math
import re
import sys
from calendar import timegm
from datetime import datetime

HOUR = 3600 * 10**9  # times are whole nanoseconds since 1970
DAY = 24 * HOUR
MOST_INTENSITY = 3000  # gCO2eq/kWh: more counts as not published
MOST_KWH = 1e10  # of a workload: beyond it, none of its figures counts
MOST_GRAMS = MOST_KWH * MOST_INTENSITY


def finite(text):
    """A number of JSON; an error where it is not finite."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text}: not a finite number")
    return value


def nanoseconds(text):
    date, fraction = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z", text).groups()
    return timegm(datetime.fromisoformat(date).timetuple()) * 10**9 + int((fraction or "0").ljust(9, "0"))


def entries(path, head):
    """Yield entries; stop with an error where the chain is broken, or no entry has the hash head, if one is given.

    What lies before the first entry may be missing if a checkpoint says that it was dropped."""
    before, last, found = "0" * 64, 0, head is None
    first = dropped = None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line, parse_float=finite, parse_constant=finite)
            except ValueError as error:
                sys.exit(f"line {number}: {error}")
            body = line[line.index('"body":') + 7 : line.rindex(',"hash":')]
            at = entry["at"].rstrip("Z").partition(".")
            at = at[0] + "." + at[2].ljust(9, "0") + "Z"
            after = [str(entry["seq"]), at, entry["kind"], entry["key"], entry.get("workload", ""), body]
            if last and entry["seq"] != last + 1:
                sys.exit(f"entry {entry['seq']} follows {last}")
            if (last or entry["seq"] == 1) and chained(before, after) != entry["hash"]:
                sys.exit(f"entry {entry['seq']}: wrong hash")
            first = first or (entry["seq"], after, entry["hash"])
            if entry["kind"] == "checkpoint" and entry["body"]["through"] == first[0] - 1:
                if chained(entry["body"]["hash"], first[1]) != first[2]:
                    sys.exit(f"entry {first[0]} does not follow the checkpoint of entry {entry['seq']}")
                dropped = True
            before, last = entry["hash"], entry["seq"]
            found = found or before == head
            yield entry
    if first and first[0] > 1 and not dropped:
        sys.exit(f"what lies before entry {first[0]} is missing, and no checkpoint says that it was dropped")
    if not found:
        sys.exit(f"no entry has the hash {head}")


def chained(before, after):
    """The hash of an entry that follows the one with hash before."""
    return hashlib.sha256("\n".join([before, *after]).encode()).hexdigest()


class Zone:
    """Intensities of a zone, by when they begin."""

    def __init__(self):
        self.of = {}

    def at(self, time):
        """The intensity at a time, None where none is published."""
        for begin, (stop, value) in self.of.items():
            if begin <= time < stop:
                return value
        return None

    def stand_in(self, time):
        """The intensity of the same time on the nearest earlier day, else on the nearest later one."""
        for days in [-1, -2, -3, -4, -5, -6, -7, 1, 2, 3, 4, 5, 6, 7]:
            value = self.at(time + days * DAY)
            if value is not None:
                return value
        return None

    def sum(self, start, end):
        """Intensity times nanoseconds, and for how many nanoseconds it is published."""
        total = covered = 0
        for begin, (stop, value) in self.of.items():
            overlap = min(end, stop) - max(start, begin)
            if overlap > 0:
                total += value * overlap
                covered += overlap
        return total, covered

    def price(self, start, end, method):
        """Intensity times nanoseconds; for how many of them it is filled, and for how many it is unknown.

        Method 2 leaves unpublished time out. Since method 3 the same time of another day stands in."""
        total, covered = self.sum(start, end)
        if method == "2" or covered == end - start:
            return total, 0, end - start - covered
        filled = unknown = 0
        edges = {t + days * DAY for begin, (stop, _) in self.of.items() for t in (begin, stop) for days in range(-7, 8)}
        moments = sorted({start, end} | {t for t in edges if start < t < end})
        for at, until in zip(moments, moments[1:]):
            if self.at(at) is not None:
                continue
            value = self.stand_in(at)
            if value is None:
                unknown += until - at
            else:
                total += value * (until - at)
                filled += until - at
        return total, filled, unknown


class Emissions:
    """Grams of CO2 equivalents, and the nanoseconds behind them without a published intensity."""

    def __init__(self, zones, method):
        self.zones, self.method = zones, method
        self.grams, self.filled, self.unknown = 0.0, 0, 0

    def add(self, zone, start, end, watts):
        if end > start:
            total, filled, unknown = self.zones.get(zone, Zone()).price(start, end, self.method)
            self.grams += watts / 1000 * total / HOUR
            self.filled += filled
            self.unknown += unknown


def use(out, stretches, measured):
    """kWh, in all and by the model: what was measured, and watts times hours where nothing was. Adds emissions to out."""
    kwh = model = 0.0
    measured, last = sorted(measured), 0
    for start, end, zone, amount in measured:
        after = max(start, last)  # where two readings are of the same time, the one that began earlier counts
        if end > after:
            amount *= (end - after) / (end - start)
            kwh += amount
            out.add(zone, after, end, amount * 1000 / ((end - after) / HOUR))
            last = end
    for start, end, zone, _, watts, _, _ in stretches:
        model += watts / 1000 * (end - start) / HOUR
        at = start
        for begin, stop, _, _ in measured + [(end, end, None, 0)]:
            if begin > at and at < end:
                until = min(begin, end)
                kwh += watts / 1000 * (until - at) / HOUR
                out.add(zone, at, until, watts)
                at = until
            if begin < end:
                at = max(at, stop)
    return kwh, model


def stated_grams(ran, submitted):
    """Emissions of both sides as they are stated: neither, where a time behind one of them has no intensity at all."""
    if ran.method != "2" and ran.unknown + submitted.unknown:
        return 0.0, 0.0
    return ran.grams, submitted.grams


def rate(of, n):
    curve = of.get("curve") or []
    if not curve or n <= 0:
        return max(n, 0)
    least = of["minWorkers"]
    if n < least:
        return curve[0] * n / least
    return sum(curve[: n - least + 1])


def useful(of, stretches):
    """The runs that have done the work."""
    if of.get("parts"):
        return [s for s in stretches if s[5]]
    if not of.get("resumable") and any(s[5] for s in stretches):
        return [s for s in stretches if not s[6]]  # the work of a pod that was lost was done again
    return stretches


def power(of, stretches):
    """The watts of the work as submitted, by the model: where only the runs show what a cluster gives, the mean of those that have done it."""
    if of.get("asRun"):
        runs = useful(of, stretches)
        time = sum(s[1] - s[0] for s in runs)
        if time > 0:
            return sum(s[3] * s[4] * (s[1] - s[0]) for s in runs) / time
    return of["watts"] * of["workers"]


def length(of, stretches, lost, paused):
    """How long the same work takes as submitted, in one piece."""
    stretches = useful(of, stretches)
    edges = sorted([(s[0], s[3]) for s in stretches] + [(s[1], -s[3]) for s in stretches])
    work, n = 0.0, 0
    for i, (at, by) in enumerate(edges):
        if i:
            work += rate(of, n - of.get("others", 0)) * (at - edges[i - 1][0]) / HOUR
        n += by
    at_once = rate(of, of["workers"])
    long = max(0, math.floor(work / at_once * HOUR + 0.5) - lost) if at_once > 0 else 0
    if paused and of["runtimeSeconds"] > 0:  # some of it may have been done twice
        expected = of["runtimeSeconds"] * (rate(of, of["minWorkers"]) / at_once if of.get("curve") else 1)
        long = min(long, math.floor(expected * 10**9 + 0.5))
    return long


class Pool:
    """What a policy's clusters have, and what earlier submissions have taken of it."""

    def __init__(self):
        self.offers, self.taken = {}, {}

    def fits(self, cluster, start, end, request):
        offers, taken = self.offers[cluster], self.taken.setdefault(cluster, [])
        moments = {start} | {t for t, _ in offers if start < t < end} | {t for x in taken for t in x[:2] if start < t < end}
        for at in moments:
            free = offers[0][1]
            for since, has in offers:
                if since <= at:
                    free = has
            for r, amount in request.items():
                used = sum(x[2].get(r, 0) for x in taken if x[0] <= at < x[1])
                most = free.get(r, 0)
                if amount > 0 and used + amount > most + 1e-9 * max(1, most):  # what rounding may take
                    return False
        return True

    def place(self, clusters, submitted, long, request):
        best = None
        for cluster in sorted(self.offers):
            if clusters and cluster not in clusters:
                continue
            moments = {submitted} | {t for t, _ in self.offers[cluster]} | {x[1] for x in self.taken.get(cluster, [])}
            for at in sorted(t for t in moments if t >= submitted):
                if best and at >= best[1]:
                    break
                if self.fits(cluster, at, max(at + long, at + 1), request):
                    best = (cluster, at)
                    break
        return best


def mode_at(modes, start):
    """The mode of the policy at the last release before a run, or at the last decision before if none released the workload."""
    before = [m for m in modes if m[0] <= start]
    released = [m for m in before if m[2]] or before
    return max(released, key=lambda m: m[0])[1] if released else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--from", dest="start", default="0001-01-01")
    parser.add_argument("--to", dest="end", default="9999-12-31")
    parser.add_argument("--head", help="hash that an entry must have: the head that you noted before")
    options = parser.parse_args()

    works, pools, zones, zone_of, waiting = {}, {}, {}, {}, []
    early, revisions, placed = {}, {}, set()
    results, checked, worst, refusals = {}, 0, 0.0, []
    beside_of = {}  # the zone by whose intensities emissions are stated too

    def differs(of, here):
        nonlocal worst
        off = abs(of - here) / max(1.0, abs(here))
        worst = max(worst, off)
        return off > 1e-9

    def audit(entry):
        """Settle a workload again, and compare."""
        nonlocal checked
        b, w = entry["body"], works.get(entry["workload"])
        if w is None:  # what it rests on was dropped
            results[entry["workload"]] = (nanoseconds(b["to"]), b["kWh"], b["grams"], b["counterfactual"]["grams"], b.get("refused", False) or b.get("missingSeconds", 0) > 0)
            c, of = b["counterfactual"], b["of"]
            if not c.get("beyond", False) and b["runs"] and entry["workload"] not in placed:
                request = {r: v * of["workers"] for r, v in of["request"].items()}
                pools.setdefault(of["policy"], Pool()).taken.setdefault(c.get("cluster", ""), []).append((nanoseconds(c["from"]), nanoseconds(c["to"]), request))
            placed.add(entry["workload"])
            return
        of, c = w["submitted"], b["counterfactual"]
        first = min((nanoseconds(s["at"]) for s in w["started"].values()), default=w["finished"])
        if "mode" in b and b["mode"] != mode_at(w["modes"], first):
            sys.exit(f"entry {entry['seq']} ({of['name']}): mode: stated {b['mode']}, found {mode_at(w['modes'], first)}")
        stretches = []
        for run in sorted(w["started"]):
            s = w["started"][run]
            end, succeeded, lost = w["ended"].get(run, (w["finished"], False, ""))
            start = nanoseconds(s["at"])
            if end > start:
                stretches.append((start, end, s["zone"], s["workers"], s["watts"], succeeded, lost))
        stretches.sort(key=lambda s: s[0])
        ran, submitted = Emissions(zones, b["method"]), Emissions(zones, b["method"])
        kwh, model = use(ran, stretches, w["energy"])
        as_kwh = watts = 0.0
        start, end = nanoseconds(c["from"]), nanoseconds(c["to"])
        if stretches:
            long, request = length(of, stretches, w["lost"], w["paused"]), {r: v * of["workers"] for r, v in of["request"].items()}
            pool = pools.setdefault(of["policy"], Pool())
            if b["revision"] == 0:
                found = pool.place(of.get("clusters"), nanoseconds(of["at"]), long, request)
                if (found is None) != c.get("beyond", False) or found and (found[0] != c["cluster"] or abs(found[1] - start) > 1000):
                    sys.exit(f"entry {entry['seq']} ({of['name']}): as submitted it would have run from {found}, not {c}")
                if found:
                    pool.taken.setdefault(found[0], []).append((start, end, request))
            if abs(end - start - long) > 1000:
                sys.exit(f"entry {entry['seq']} ({of['name']}): as submitted it takes {long / HOUR} h, not {(end - start) / HOUR}")
            watts = power(of, stretches) * (kwh / model if model else 1)
            as_kwh = watts / 1000 * (end - start) / HOUR
            submitted.add(c["zone"], start, end, watts)
        g, as_g = stated_grams(ran, submitted)
        possible = all(0 <= v <= MOST_KWH for v in (kwh, as_kwh)) and all(0 <= v <= MOST_GRAMS for v in (g, as_g))
        refused = w["quarantined"] or not possible
        if refused != b.get("refused", False):
            sys.exit(f"entry {entry['seq']} ({of['name']}): refused: stated {b.get('refused', False)}, found {refused}: no workload has such figures, or an entry of it is in quarantine")
        if refused:
            kwh = g = as_kwh = as_g = 0.0
            refusals.append(f"{of['namespace']}/{of['name']}")
        for name, stated, here in [
            ("kWh", b["kWh"], kwh), ("grams", b["grams"], g), ("kWh as submitted", c["kWh"], as_kwh),
            ("grams as submitted", c["grams"], as_g), ("saved", b["savedGrams"], as_g - g),
            ("seconds filled", b.get("filledSeconds", 0), ran.filled / 1e9), ("seconds filled as submitted", c.get("filledSeconds", 0), submitted.filled / 1e9),
            ("seconds without an intensity", b.get("missingSeconds", 0), (ran.unknown + submitted.unknown) / 1e9),
        ]:
            if differs(stated, here):
                sys.exit(f"entry {entry['seq']} ({of['name']}): {name}: stated {stated}, found {here}")
        other = b.get("beside")
        if stretches and (other is None) != (of.get("zone", "") not in beside_of):
            sys.exit(f"entry {entry['seq']} ({of['name']}): beside: stated {other}")
        if other and stretches:
            by = {zone: zones.get(name, Zone()) for zone, name in beside_of.items()}
            there, as_there = Emissions(by, b["method"]), Emissions(by, b["method"])
            use(there, stretches, w["energy"])
            as_there.add(c["zone"], start, end, watts)
            g_there, as_g_there = (0.0, 0.0) if refused else stated_grams(there, as_there)
            for name, stated, here in [
                ("grams", other["grams"], g_there), ("grams as submitted", other["asSubmittedGrams"], as_g_there), ("saved", other["savedGrams"], as_g_there - g_there),
                ("seconds filled", other.get("filledSeconds", 0), (there.filled + as_there.filled) / 1e9),
                ("seconds without an intensity", other.get("missingSeconds", 0), (there.unknown + as_there.unknown) / 1e9),
            ]:
                if differs(stated, here):
                    sys.exit(f"entry {entry['seq']} ({of['name']}): {name} by {other['signal']} intensities: stated {stated}, found {here}")
        results[entry["workload"]] = (nanoseconds(b["to"]), kwh, g, as_g, refused or ran.unknown + submitted.unknown > 0)
        checked += 1

    def read(entry):
        b, w = entry["body"], works.get(entry.get("workload", ""))
        kind = entry["kind"]
        if w is None and kind not in ("submitted", "capacity", "intensity"):
            early.setdefault(entry.get("workload", ""), []).append(entry)  # after a drop the submission may stand last
            return
        if kind == "submitted":
            works[entry["workload"]] = {"submitted": b, "started": {}, "ended": {}, "energy": [], "lost": 0, "paused": False, "modes": [], "finished": None, "quarantined": False}
            for other in early.pop(entry["workload"], []):
                read(other)
        elif kind == "started":
            w["started"][b["run"]] = b
        elif kind == "ended":
            w["ended"][b["run"]] = (nanoseconds(b["at"]), b.get("succeeded", False), b.get("lost", ""))
        elif kind == "energy":
            w["energy"].append((nanoseconds(b["from"]), nanoseconds(b["to"]), b["zone"], b["kWh"]))
        elif kind == "decided":
            if b["applied"]:
                w["lost"] += int(b.get("lostSeconds", 0) * 1e9)
                w["paused"] = w["paused"] or b["verb"] == "Pause"
            if b.get("mode"):
                w["modes"].append((nanoseconds(b["at"]), b["mode"], b["applied"] and b["verb"] in ("Release", "Resume")))
        elif kind == "quarantined":
            w["quarantined"] = True
        elif kind == "finished":
            w["finished"] = nanoseconds(b["at"])
        elif kind == "capacity":
            pools.setdefault(b["policy"], Pool()).offers.setdefault(b["cluster"], []).append((nanoseconds(b["at"]), b["free"]))
            pools[b["policy"]].offers[b["cluster"]].sort(key=lambda offer: offer[0])
        elif kind == "intensity" and 0 <= b["value"] <= MOST_INTENSITY:
            at, revision = nanoseconds(b["from"]), b["revision"]
            if b.get("beside"):
                beside_of[b["zone"]] = b["beside"]
            if revision >= revisions.get((b["zone"], at), 0):
                revisions[b["zone"], at] = revision
                zones.setdefault(b["zone"], Zone()).of[at] = (nanoseconds(b["to"]), b["value"])

    # A settlement rests on the entries up to the one that it names.
    queue = []
    for entry in entries(options.export, options.head):
        if entry["kind"] == "settled":
            while queue and queue[0]["seq"] <= entry["body"]["after"]:
                read(queue.pop(0))
            audit(entry)
        else:
            queue.append(entry)

    start, end = nanoseconds(options.start + "T00:00:00Z") if options.start > "1970" else 0, nanoseconds(options.end + "T00:00:00Z")
    chosen = [r for r in results.values() if start <= r[0] < end]
    stated = [r for r in chosen if not r[4]]  # an entry of method 2 that left hours out counts as withheld, as in lull report
    print(json.dumps({
        "workloads": len(chosen), "withheld": len(chosen) - len(stated), "kWh": math.fsum(r[1] for r in chosen), "gCO2eq": math.fsum(r[2] for r in stated),
        "saved_gCO2eq": math.fsum(r[3] - r[2] for r in stated), "refused": sorted(set(refusals)),
        "settlements_checked": checked, "largest_difference": worst,
    }, allow_nan=False))


if __name__ == "__main__":
    main()
