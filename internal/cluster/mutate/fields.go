package mutate

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// fields are those that are read of an object, as a tree of names: all of the object, or those in of and no others.
type fields struct {
	all bool
	of  map[string]*fields
}

// add adds the field at a path, with all below it.
func (f *fields) add(path []string) {
	if f.all {
		return
	}
	if len(path) == 0 {
		f.all, f.of = true, nil
		return
	}
	if f.of == nil {
		f.of = map[string]*fields{}
	}
	if f.of[path[0]] == nil {
		f.of[path[0]] = &fields{}
	}
	f.of[path[0]].add(path[1:])
}

// merge adds all fields of another tree.
func (f *fields) merge(other *fields) {
	if other.all {
		f.add(nil)
		return
	}
	for name, below := range other.of {
		if f.all {
			return
		}
		if f.of == nil {
			f.of = map[string]*fields{}
		}
		if f.of[name] == nil {
			f.of[name] = &fields{}
		}
		f.of[name].merge(below)
	}
}

// read adds what an expression reads of the variable object. What is reached in any other way than by names of fields counts as read with all below it.
func (f *fields) read(e ast.Expr) {
	if path, ok := pathOf(e); ok {
		f.add(path)
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			f.read(call.Target())
		}
		for _, a := range call.Args() {
			f.read(a)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			f.read(part)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			f.read(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.read(entry.AsMapEntry().Key())
			f.read(entry.AsMapEntry().Value())
		}
	case ast.SelectKind:
		f.read(e.AsSelect().Operand())
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			f.read(field.AsStructField().Value())
		}
	case ast.IdentKind, ast.LiteralKind, ast.UnspecifiedExprKind: // they read no object
	}
}

// pathOf is the path by which an expression selects a field of the variable object: object.a.?b, for example, a and b. ok is false for any other expression.
func pathOf(e ast.Expr) (path []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == "object"
	case ast.SelectKind:
		path, ok = pathOf(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.OptSelect || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, false
		}
		name, text := call.Args()[1].AsLiteral().(types.String)
		path, ok = pathOf(call.Args()[0])
		return append(path, string(name)), ok && text
	}
	return nil, false
}
