package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
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

// cell keeps a short text on one line.
func cell(text string) string {
	const most = 16
	if len(text) > most {
		return text
	}
	return strings.ReplaceAll(text, " ", "\u00a0")
}

// WriteDocument renders the page.
func WriteDocument(w io.Writer, d Document) error { return documentPage.Execute(w, d) }

// Gantt draws when jobs waited and ran.
func Gantt(from, to time.Time, jobs []Job) template.HTML {
	return gantt(Page{From: from, To: to, Jobs: jobs})
}
