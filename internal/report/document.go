package report

import (
	_ "embed"
	"html/template"
	"io"
	"time"
)

// Section is a part of a document: text, a table and a picture, each where given.
type Section struct {
	Title, Text string
	Head        []string
	Rows        [][]string
	Picture     template.HTML
	Notes       []string
}

// Document is a page of sections.
type Document struct {
	Title, Intro string
	Sections     []Section
}

//go:embed document.html
var documentText string

var documentPage = parse("document", documentText)

// WriteDocument renders the page.
func WriteDocument(w io.Writer, d Document) error { return documentPage.Execute(w, d) }

// Gantt draws when jobs waited and ran.
func Gantt(from, to time.Time, jobs []Job) template.HTML {
	return gantt(Page{From: from, To: to, Jobs: jobs})
}
