#!/usr/bin/env python3
"""Recompute emissions and savings from the raw export of a ledger, and check its chain.

    lull ledger export --database ledger.db --entries -o ledger.jsonl
    python3 audit.py ledger.jsonl [--from 2026-10-01] [--to 2026-11-01]

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


def nanoseconds(text):
    date, fraction = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z", text).groups()
    return timegm(datetime.fromisoformat(date).timetuple()) * 10**9 + int((fraction or "0").ljust(9, "0"))


def entries(path):
    """Yield entries; stop with an error where the chain is broken."""
    before, last = "0" * 64, 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            body = line[line.index('"body":') + 7 : line.rindex(',"hash":')]
            at = entry["at"].rstrip("Z").partition(".")
            at = at[0] + "." + at[2].ljust(9, "0") + "Z"
            text = "\n".join([before, str(entry["seq"]), at, entry["kind"], entry["key"], entry.get("workload", ""), body])
            if last and entry["seq"] != last + 1:
                sys.exit(f"entry {entry['seq']} follows {last}")
            if (last or entry["seq"] == 1) and hashlib.sha256(text.encode()).hexdigest() != entry["hash"]:
                sys.exit(f"entry {entry['seq']}: wrong hash")
            before, last = entry["hash"], entry["seq"]
            yield entry


class Zone:
    """Intensities of a zone, by when they begin."""

    def __init__(self):
        self.of = {}

    def mean(self, start, end):
        """Mean intensity, and for how many nanoseconds it is known."""
        total = covered = 0
        for begin, (stop, value) in self.of.items():
            overlap = min(end, stop) - max(start, begin)
            if overlap > 0:
                total += value * overlap
                covered += overlap
        return (total / covered if covered else 0.0), covered


def grams(zones, zone, start, end, watts):
    mean, covered = zones.get(zone, Zone()).mean(start, end)
    return watts / 1000 * covered / HOUR * mean


def use(zones, stretches, measured):
    """kWh and gCO2eq: what was measured, and watts times hours where nothing was."""
    kwh = model = g = 0.0
    measured, last = sorted(measured), 0
    for start, end, zone, amount in measured:
        after = max(start, last)  # where two readings are of the same time, the one that began earlier counts
        if end > after:
            amount *= (end - after) / (end - start)
            kwh += amount
            g += grams(zones, zone, after, end, amount * 1000 / ((end - after) / HOUR))
            last = end
    for start, end, zone, _, watts, _ in stretches:
        model += watts / 1000 * (end - start) / HOUR
        at = start
        for begin, stop, _, _ in measured + [(end, end, None, 0)]:
            if begin > at and at < end:
                until = min(begin, end)
                kwh += watts / 1000 * (until - at) / HOUR
                g += grams(zones, zone, at, until, watts)
                at = until
            if begin < end:
                at = max(at, stop)
    return kwh, model, g


def rate(of, n):
    curve = of.get("curve") or []
    if not curve or n <= 0:
        return max(n, 0)
    least = of["minWorkers"]
    if n < least:
        return curve[0] * n / least
    return sum(curve[: n - least + 1])


def length(of, stretches, lost, paused):
    """How long the same work takes as submitted, in one piece."""
    if of.get("parts"):
        stretches = [s for s in stretches if s[5]]
    edges = sorted([(s[0], s[3]) for s in stretches] + [(s[1], -s[3]) for s in stretches])
    work, n = 0.0, 0
    for i, (at, by) in enumerate(edges):
        if i:
            work += rate(of, n) * (at - edges[i - 1][0]) / HOUR
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--from", dest="start", default="0001-01-01")
    parser.add_argument("--to", dest="end", default="9999-12-31")
    options = parser.parse_args()

    works, pools, zones, zone_of, waiting = {}, {}, {}, {}, []
    early, revisions, placed = {}, {}, set()
    results, checked, worst = {}, 0, 0.0
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
            results[entry["workload"]] = (nanoseconds(b["to"]), b["kWh"], b["grams"], b["counterfactual"]["grams"])
            c, of = b["counterfactual"], b["of"]
            if not c.get("beyond", False) and b["runs"] and entry["workload"] not in placed:
                request = {r: v * of["workers"] for r, v in of["request"].items()}
                pools.setdefault(of["policy"], Pool()).taken.setdefault(c.get("cluster", ""), []).append((nanoseconds(c["from"]), nanoseconds(c["to"]), request))
            placed.add(entry["workload"])
            return
        of, c = w["submitted"], b["counterfactual"]
        stretches = []
        for run in sorted(w["started"]):
            s = w["started"][run]
            end, succeeded = w["ended"].get(run, (w["finished"], False))
            start = nanoseconds(s["at"])
            if end > start:
                stretches.append((start, end, s["zone"], s["workers"], s["watts"], succeeded))
        stretches.sort(key=lambda s: s[0])
        kwh, model, g = use(zones, stretches, w["energy"])
        as_kwh = as_g = 0.0
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
            watts = of["watts"] * of["workers"] * (kwh / model if model else 1)
            as_kwh, as_g = watts / 1000 * (end - start) / HOUR, grams(zones, c["zone"], start, end, watts)
        for name, stated, here in [
            ("kWh", b["kWh"], kwh), ("grams", b["grams"], g), ("kWh as submitted", c["kWh"], as_kwh),
            ("grams as submitted", c["grams"], as_g), ("saved", b["savedGrams"], as_g - g),
        ]:
            if differs(stated, here):
                sys.exit(f"entry {entry['seq']} ({of['name']}): {name}: stated {stated}, found {here}")
        other = b.get("beside")
        if stretches and (other is None) != (of.get("zone", "") not in beside_of):
            sys.exit(f"entry {entry['seq']} ({of['name']}): beside: stated {other}")
        if other and stretches:
            by = {zone: zones.get(name, Zone()) for zone, name in beside_of.items()}
            there = use(by, stretches, w["energy"])[2]
            as_there = grams(by, c["zone"], start, end, watts)
            for name, stated, here in [("grams", other["grams"], there), ("grams as submitted", other["asSubmittedGrams"], as_there), ("saved", other["savedGrams"], as_there - there)]:
                if differs(stated, here):
                    sys.exit(f"entry {entry['seq']} ({of['name']}): {name} by {other['signal']} intensities: stated {stated}, found {here}")
        results[entry["workload"]] = (nanoseconds(b["to"]), kwh, g, as_g)
        checked += 1

    def read(entry):
        b, w = entry["body"], works.get(entry.get("workload", ""))
        kind = entry["kind"]
        if w is None and kind not in ("submitted", "capacity", "intensity"):
            early.setdefault(entry.get("workload", ""), []).append(entry)  # after a drop the submission may stand last
            return
        if kind == "submitted":
            works[entry["workload"]] = {"submitted": b, "started": {}, "ended": {}, "energy": [], "lost": 0, "paused": False, "finished": None}
            for other in early.pop(entry["workload"], []):
                read(other)
        elif kind == "started":
            w["started"][b["run"]] = b
        elif kind == "ended":
            w["ended"][b["run"]] = (nanoseconds(b["at"]), b.get("succeeded", False))
        elif kind == "energy":
            w["energy"].append((nanoseconds(b["from"]), nanoseconds(b["to"]), b["zone"], b["kWh"]))
        elif kind == "decided" and b["applied"]:
            w["lost"] += int(b.get("lostSeconds", 0) * 1e9)
            w["paused"] = w["paused"] or b["verb"] == "Pause"
        elif kind == "finished":
            w["finished"] = nanoseconds(b["at"])
        elif kind == "capacity":
            pools.setdefault(b["policy"], Pool()).offers.setdefault(b["cluster"], []).append((nanoseconds(b["at"]), b["free"]))
            pools[b["policy"]].offers[b["cluster"]].sort(key=lambda offer: offer[0])
        elif kind == "intensity":
            at, revision = nanoseconds(b["from"]), b["revision"]
            if b.get("beside"):
                beside_of[b["zone"]] = b["beside"]
            if revision >= revisions.get((b["zone"], at), 0):
                revisions[b["zone"], at] = revision
                zones.setdefault(b["zone"], Zone()).of[at] = (nanoseconds(b["to"]), b["value"])

    # A settlement rests on the entries up to the one that it names.
    queue = []
    for entry in entries(options.export):
        if entry["kind"] == "settled":
            while queue and queue[0]["seq"] <= entry["body"]["after"]:
                read(queue.pop(0))
            audit(entry)
        else:
            queue.append(entry)

    start, end = nanoseconds(options.start + "T00:00:00Z") if options.start > "1970" else 0, nanoseconds(options.end + "T00:00:00Z")
    chosen = [r for r in results.values() if start <= r[0] < end]
    print(json.dumps({
        "workloads": len(chosen), "kWh": math.fsum(r[1] for r in chosen), "gCO2eq": math.fsum(r[2] for r in chosen),
        "saved_gCO2eq": math.fsum(r[3] - r[2] for r in chosen), "settlements_checked": checked, "largest_difference": worst,
    }))


if __name__ == "__main__":
    main()
