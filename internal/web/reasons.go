package web

// meanings says in words why a workload waits, or runs as it does: the rows of docs/reference.md.
var meanings = map[string]string{
	"CleanNow":          "the plan uses the current slot",
	"CleanerLater":      "the plan starts or continues later",
	"SharedCapacity":    "it waits because the cluster is full, not for cleaner power",
	"PauseDoesNotPay":   "it continues: a pause would lose more than it saves",
	"MoveDoesNotPay":    "another cluster is cleaner, but a move would emit more: work done again, restart, transfer",
	"SavingTooSmall":    "it could wait, pause or move, but that would save less than spec.minSaving, so it runs now",
	"NextPeriod":        "with Caspian's objective: it came after the plan of this slot, and waits for the next planning round",
	"TooSoon":           "a change is due, but the last one was too recent or is not complete",
	"LatestStart":       "if it waited longer, it would miss its deadline",
	"NoSlack":           "it may not wait. If a CronJob is the cause, the message says why",
	"HeldOut":           "it runs as submitted, as part of the comparison group (spec.holdOut)",
	"DeadlineAtRisk":    "there is no place before the deadline. It runs at once, or as soon as there is room that no other deadline needs",
	"NoRoom":            "other work leaves no room for it before its deadline, whatever Lull does. It is released, and waits in the queue of its cluster",
	"ClusterQueue":      "released work waits for room on the cluster, so its queue decides the order",
	"NoCarbonData":      "the carbon intensity is unknown, so it runs. The data of a deleted GridZone stays valid for 10 s, so that you can replace it",
	"Unscheduled":       "it was released, but no node has room for its pods, or it has had no pods for ten minutes. It does not count against capacity. Only its CarbonPlan says so",
	"PlannerFailed":     "the planner failed, so it runs",
	"Paused":            "its policy or zone is paused, so it runs",
	"PolicyGone":        "its policy was deleted 10 s ago and did not come back, so it runs",
	"Excluded":          "its policy may not govern it: a hook, an object of a system namespace, or one that names another policy",
	"InvalidAnnotation": "its annotations cannot be read, so it runs",
	"Failsafe":          "the watchdog released it: its latest start has come, or its policy no longer holds anything",
	"Released":          "somebody released it with lull release",
	"ReleasedAll":       "somebody released it with lull release",
}
