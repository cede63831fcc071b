package account

import (
	"crypto/sha256"
	"encoding/binary"
)

// HeldOut reports whether a job is one of the share (0 to 1) that runs as submitted, for the others to be compared with. It
// depends on the name of the job alone, which is its own for all time, so that the answer stays.
func HeldOut(name string, share float64) bool {
	sum := sha256.Sum256([]byte(name))
	return float64(binary.BigEndian.Uint64(sum[:]))/(1<<64) < share
}
