package controlplane

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImageBlobsAreNamedByDigest: every blob is named by its digest, the index leads to the binary, and the
// name is where containerd looks for it.
func TestImageBlobsAreNamedByDigest(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "tool")
	if err := os.WriteFile(binary, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "image.tar")
	if err := writeImage(file, "lull.dev/tool:1", binary); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if content[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if digest, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256(content[h.Name]); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s holds something else", h.Name)
			}
		}
	}
	type descriptor struct {
		Digest      string            `json:"digest"`
		Annotations map[string]string `json:"annotations"`
	}
	blob := func(d descriptor) []byte {
		return content["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(content["index.json"], &index); err != nil || len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "lull.dev/tool:1" {
		t.Fatalf("index %s: %v", content["index.json"], err)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(blob(index.Manifests[0]), &manifest); err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("manifest %s: %v", blob(index.Manifests[0]), err)
	}
	var config struct {
		Config struct{ Entrypoint []string } `json:"config"`
	}
	if err := json.Unmarshal(blob(manifest.Config), &config); err != nil || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/tool" {
		t.Fatalf("config %s: %v", blob(manifest.Config), err)
	}
	layer := tar.NewReader(strings.NewReader(string(blob(manifest.Layers[0]))))
	h, err := layer.Next()
	if err != nil || h.Name != "tool" || h.Mode != 0o755 {
		t.Fatalf("layer %+v: %v", h, err)
	}
	if text, _ := io.ReadAll(layer); string(text) != "a program" {
		t.Errorf("the layer holds %q", text)
	}
}
