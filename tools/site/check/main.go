// Command check fails if a link of a site leads nowhere: to a file that is not there, or to no such place in it.
//
//	check DIR
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DIR")
		os.Exit(2)
	}
	pages, links, faults, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d pages, %d links: all lead somewhere\n", pages, links)
}

// page is what a page offers to links and what it links to.
type page struct {
	anchors map[string]bool
	links   []string
}

func check(site fs.FS) (pages, links int, faults []string, err error) {
	files, read := map[string]bool{}, map[string]page{}
	err = fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		f, err := site.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		root, err := html.Parse(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p := page{anchors: map[string]bool{"": true, "top": true}}
		p.walk(root)
		read[name] = p
		return nil
	})
	for name, p := range read {
		for _, link := range p.links {
			links++
			if fault := follow(name, link, files, read); fault != "" {
				faults = append(faults, fmt.Sprintf("%s: %s: %s", name, link, fault))
			}
		}
	}
	slices.Sort(faults)
	if err == nil && len(read) == 0 {
		err = errors.New("no pages")
	}
	return len(read), links, faults, err
}

func (p *page) walk(n *html.Node) {
	for _, a := range n.Attr {
		switch {
		case n.Type != html.ElementNode:
		case a.Key == "id", a.Key == "name" && n.Data == "a":
			p.anchors[a.Val] = true
		case a.Key == "href", a.Key == "src":
			p.links = append(p.links, a.Val)
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c)
	}
}

// follow says why a link of a page leads nowhere; nothing if it leads to another site.
func follow(from, link string, files map[string]bool, pages map[string]page) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "" || u.Host != "":
		return ""
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if strings.HasPrefix(u.Path, "/") {
			to = strings.TrimPrefix(path.Clean(u.Path), "/")
		}
	}
	if !files[to] && files[path.Join(to, "index.html")] {
		to = path.Join(to, "index.html")
	}
	if !files[to] {
		return "no such file"
	}
	if p, is := pages[to]; is && !p.anchors[u.Fragment] {
		return "no such place in " + to
	}
	return ""
}
