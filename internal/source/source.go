// Package source reads carbon-intensity series for GridZones from where they
// are kept. Nothing here runs inside a scheduling decision: controllers load a
// series ahead and decide on what they have.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
)

// ErrSource marks a source that cannot be read.
var ErrSource = errors.New("carbon source")

// maxFileBytes bounds a file; a ConfigMap is bounded by Kubernetes at 1 MiB.
const maxFileBytes = 128 << 20

// Loader loads the series of zones and keeps each until its source changes. It
// is safe for concurrent use.
type Loader struct {
	// Reader reads ConfigMaps from the API server.
	Reader client.Reader

	mu     sync.Mutex
	loaded map[string]entry // by zone name
}

type entry struct {
	version string
	series  *carbon.Series
}

// Load returns the series of a zone. Errors wrap ErrSource, name the source and,
// for a text that is no series, what is wrong with it.
func (l *Loader) Load(ctx context.Context, zone *v1alpha1.GridZone) (*carbon.Series, error) {
	src := zone.Spec.Source
	switch {
	case src.ConfigMap != nil:
		return l.configMap(ctx, zone, src.ConfigMap)
	case src.File != nil:
		return l.file(zone, src.File.Path)
	}
	return nil, fmt.Errorf("%w: spec.source: empty; accepted: configMap or file", ErrSource)
}

func (l *Loader) configMap(ctx context.Context, zone *v1alpha1.GridZone, ref *v1alpha1.ConfigMapKey) (*carbon.Series, error) {
	name := fmt.Sprintf("configmap %s/%s, key %s", ref.Namespace, ref.Name, ref.Key)
	var cm corev1.ConfigMap
	if err := l.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &cm); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSource, name, err)
	}
	text, ok := cm.Data[ref.Key]
	if !ok {
		binary, ok := cm.BinaryData[ref.Key]
		if !ok {
			return nil, fmt.Errorf("%w: %s: no such key", ErrSource, name)
		}
		text = string(binary)
	}
	version := fmt.Sprintf("%s %s %d", cm.UID, cm.ResourceVersion, zone.Generation)
	return l.parse(zone, name, ref.Key, version, func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	})
}

func (l *Loader) file(zone *v1alpha1.GridZone, path string) (*carbon.Series, error) {
	name := "file " + path
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%w: %s: accepted: a regular file of at most %d MiB", ErrSource, name, maxFileBytes>>20)
	}
	version := fmt.Sprintf("%s %d %d", info.ModTime(), info.Size(), zone.Generation)
	return l.parse(zone, name, path, version, func() (io.ReadCloser, error) { return os.Open(path) })
}

// parse reads a series unless the same version is loaded already.
func (l *Loader) parse(zone *v1alpha1.GridZone, name, key, version string, open func() (io.ReadCloser, error)) (*carbon.Series, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.loaded[zone.Name]; ok && e.version == version {
		return e.series, nil
	}
	r, err := open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer r.Close()
	series, err := Read(r, key, Provenance(zone, name))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSource, name, err)
	}
	if l.loaded == nil {
		l.loaded = map[string]entry{}
	}
	l.loaded[zone.Name] = entry{version, series}
	return series, nil
}

// Provenance is what a zone states of its numbers.
func Provenance(zone *v1alpha1.GridZone, source string) carbon.Provenance {
	signal := carbon.Average
	if zone.Spec.Signal == v1alpha1.SignalMarginal {
		signal = carbon.Marginal
	}
	return carbon.Provenance{Zone: zone.Spec.Zone, Signal: signal, Source: source}
}

// Read reads a series in the format that the end of name says: .csv or .json. A
// series that states another signal than the zone is refused: average and
// marginal intensities never mix.
func Read(r io.Reader, name string, p carbon.Provenance) (*carbon.Series, error) {
	var series *carbon.Series
	var err error
	switch {
	case strings.HasSuffix(name, ".csv"):
		series, err = carbon.ReadCSV(r, p)
	case strings.HasSuffix(name, ".json"):
		series, err = carbon.ReadJSON(r, p)
	default:
		return nil, fmt.Errorf("%q: accepted: a name that ends in .csv or .json", name)
	}
	if err == nil && p.Signal != "" && series.Signal != p.Signal {
		return nil, fmt.Errorf("signal: the series is %s, the zone states %s", series.Signal, p.Signal)
	}
	return series, err
}
