package api

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMetrics(more []prometheus.Collector) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "assent_http_request_duration_seconds", Help: "How long requests took, streams excepted.", Buckets: prometheus.DefBuckets,
		}, []string{"method", "route", "status"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "assent_http_open_streams", Help: "Event streams that are open."}),
	}
	m.registry.MustRegister(m.requests, m.streams, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(more...)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true})
}

// observe logs each request and counts its time. It never looks at the query,
// which may hold a login token, nor at the body.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := a.now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			took := a.now().Sub(start)
			status := ww.Status()
			if status == 0 {
				status = statusClientGone // nothing was answered
			}
			route := routeOf(r)
			if !isStream(route) {
				a.metrics.requests.WithLabelValues(methodLabel(r.Method), route, strconv.Itoa(status)).Observe(took.Seconds())
			}
			level := slog.LevelInfo
			if isProbe(route) {
				level = slog.LevelDebug
			}
			a.log.LogAttrs(r.Context(), level, "request",
				slog.String("method", methodLabel(r.Method)), slog.String("route", route), slog.Int("status", status),
				slog.Duration("duration", took), slog.String("request_id", middleware.GetReqID(r.Context())))
		}()
		next.ServeHTTP(ww, r)
	})
}

// statusClientGone is what is logged for a client that left before its answer.
const statusClientGone = 499

// routeOf is the pattern of the request's route: paths hold ids, patterns do
// not, and there are few of them.
func routeOf(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil {
		if pattern := c.RoutePattern(); pattern != "" {
			return pattern
		}
	}
	return "unmatched"
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodPut, http.MethodOptions:
		return method
	}
	return "other"
}

func isStream(route string) bool { return route == "/events" || route == "/topics/{topicId}/events" }

func isProbe(route string) bool {
	return route == "/healthz" || route == "/readyz" || route == "/metrics"
}
