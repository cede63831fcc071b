package controlplane

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// putImage puts an image where the node finds it: of a static binary, or one that is packed already.
func (o Options) putImage(file, name, from string) error {
	to := o.path("node", "images", file)
	if !strings.HasSuffix(from, ".tar") {
		return writeImage(to, name, from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// writeImage writes an image of a single static binary as a tar of an OCI layout, for
// `ctr images import`. Its entry point is the binary.
//
// Specification: https://github.com/opencontainers/image-spec, image-layout, config and manifest.
func writeImage(file, name, binary string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	entry := "/" + filepath.Base(binary)
	var layer bytes.Buffer
	if err := tarOf(&layer, []tarFile{{entry[1:], program, 0o755}}); err != nil {
		return err
	}
	type descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	var blobs []tarFile
	blob := func(mediaType string, content []byte) descriptor {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		blobs = append(blobs, tarFile{"blobs/sha256/" + digest, content, 0o644})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
	}
	const of = "application/vnd.oci.image."
	asJSON := func(v any) []byte {
		text, _ := json.Marshal(v) // maps and slices of strings do not fail
		return text
	}
	layerBlob := blob(of+"layer.v1.tar", layer.Bytes())
	config := blob(of+"config.v1+json", asJSON(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{entry}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	manifest := blob(of+"manifest.v1+json", asJSON(map[string]any{
		"schemaVersion": 2, "mediaType": of + "manifest.v1+json", "config": config, "layers": []descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": name}
	index := asJSON(map[string]any{"schemaVersion": 2, "mediaType": of + "index.v1+json", "manifests": []descriptor{manifest}})
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := tarOf(f, append(blobs, tarFile{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644}, tarFile{"index.json", index, 0o644})); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return f.Close()
}

type tarFile struct {
	name    string
	content []byte
	mode    int64
}

func tarOf(w io.Writer, files []tarFile) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
