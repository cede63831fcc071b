// Package version says which build this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is set by the build (-ldflags -X); a build without it says so.
var Version = ""

// String returns the version, the commit when the build recorded one, and the
// Go release.
func String() string {
	v := Version
	if v == "" {
		v = "development build"
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				v += " " + s.Value[:12]
			}
		}
	}
	return fmt.Sprintf("lull %s (%s %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
