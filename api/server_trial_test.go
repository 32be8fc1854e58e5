package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestATrialHasMoreTimeThanOtherRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := &fake{hang: true}
		h := New(Options{Service: svc, Models: fakeModels{}, Events: fakeEvents{}}).Handler()
		ask := func(path string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "http://localhost"+path, strings.NewReader(`{"name":"n"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+ownToken)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		begin := time.Now()
		if w := ask("/mcp-servers/test"); w.Code != 503 || !strings.Contains(w.Body.String(), "The server took too long") {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
		if took := time.Since(begin); took != trialTimeout || svc.deadline.Sub(begin) != trialTimeout {
			t.Errorf("it ended after %s", took)
		}
		begin = time.Now()
		if w := ask("/mcp-servers/s1/test"); w.Code != 200 || svc.deadline.Sub(begin) != trialTimeout {
			t.Errorf("answered %d %s with a deadline after %s", w.Code, w.Body, svc.deadline.Sub(begin))
		}
	})
}
