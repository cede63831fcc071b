package sim

import "time"

// events is a heap of moments at which something happens to a job, the earliest first;
// at equal times in the order they were pushed.
type events struct {
	list   []event
	pushed int
}

type event struct {
	at      time.Duration
	order   int
	job     *live
	version int32
	kind    kind
}

// kind is what an event is about.
type kind uint8

const (
	completes kind = iota
	asksAgain      // for workers that were denied
	wakes          // its plan starts, stops or changes something
)

// holds reports whether what the event is for is still so.
func (a *event) holds() bool {
	if a.kind == wakes {
		return a.job.wake == a.at
	}
	return a.job.version == a.version
}

func (a *event) before(b *event) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (q *events) peek() (time.Duration, bool) {
	for len(q.list) > 0 && !q.list[0].holds() {
		q.drop()
	}
	if len(q.list) == 0 {
		return 0, false
	}
	return q.list[0].at, true
}

// push adds an event. It holds as long as the job is not stopped or scaled; one that wakes a job, as long as
// the job is not to wake at another time.
func (q *events) push(at time.Duration, l *live, k kind) {
	q.list = append(q.list, event{at, q.pushed, l, l.version, k})
	q.pushed++
	for i := len(q.list) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.list[i].before(&q.list[parent]) {
			break
		}
		q.list[i], q.list[parent] = q.list[parent], q.list[i]
		i = parent
	}
}

// pop takes the first event that still holds and is not later than now.
func (q *events) pop(now time.Duration) (event, bool) {
	if at, ok := q.peek(); !ok || at > now {
		return event{}, false
	}
	first := q.list[0]
	q.drop()
	return first, true
}

func (q *events) drop() {
	last := len(q.list) - 1
	q.list[0] = q.list[last]
	q.list[last] = event{}
	q.list = q.list[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return
		}
		if child+1 < last && q.list[child+1].before(&q.list[child]) {
			child++
		}
		if !q.list[child].before(&q.list[i]) {
			return
		}
		q.list[i], q.list[child] = q.list[child], q.list[i]
		i = child
	}
}
