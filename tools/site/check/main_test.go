package main

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestCheck(t *testing.T) {
	site := fstest.MapFS{
		"index.html":     {Data: []byte(`<h1 id="a">A</h1><a name="b"></a><a href="#a">1</a><a href="sub/">2</a><img src="x.svg"><a href="https://example.com/none">3</a>`)},
		"sub/index.html": {Data: []byte(`<a href="../index.html#b">1</a><a href="/index.html#c">2</a><a href="none.html">3</a>`)},
		"x.svg":          {},
	}
	pages, links, faults, err := check(site)
	want := []string{"sub/index.html: /index.html#c: no such place in index.html", "sub/index.html: none.html: no such file"}
	if pages != 2 || links != 7 || err != nil || !slices.Equal(faults, want) {
		t.Errorf("%d pages, %d links, faults %q, %v; want 2, 7, %q", pages, links, faults, err, want)
	}
	if _, _, _, err := check(fstest.MapFS{}); err == nil {
		t.Error("no error for a site without pages")
	}
}
