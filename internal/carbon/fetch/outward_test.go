package fetch

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestNoLinkLocalAddress: whoever may name an address of a provider cannot have Lull read the metadata of the instance it runs on.
func TestNoLinkLocalAddress(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254:80": true, "[fe80::1%eth0]:80": true, "[::ffff:169.254.169.254]:80": true, "[fd00:ec2::254]:80": true, "127.0.0.1:80": false, "[::1]:80": false,
	} {
		if err := notLinkLocal("tcp", address, nil); errors.Is(err, ErrLinkLocal) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	client := newClient(&clock{}, "")
	if _, err := client.Get(t.Context(), Request{URL: "http://169.254.169.254/latest/meta-data/"}); !errors.Is(err, ErrLinkLocal) {
		t.Errorf("by the client: %v", err)
	}
}

// TestAnswersAreNotQuoted: the text of an answer that refuses is in the error only for people at a terminal: a status is read by others.
func TestAnswersAreNotQuoted(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusBadRequest, http.StatusBadGateway} {
		url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "the secret", status) })
		for _, quote := range []bool{false, true} {
			client := newClient(&clock{}, "")
			client.Quote = quote
			_, err := client.Get(t.Context(), Request{URL: url})
			if err == nil || strings.Contains(err.Error(), "the secret") != quote || !strings.Contains(err.Error(), http.StatusText(status)) {
				t.Errorf("%d, quoted %v: %v", status, quote, err)
			}
		}
	}
}
