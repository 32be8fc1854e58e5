# syntax=docker/dockerfile:1

# The page in web/dist is committed and proven equal to web/src by "make test",
# so that the image needs no Node.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
# Pure Go, SQLite included: the result needs no libc.
ENV CGO_ENABLED=0 GOCACHE=/cache/go-build
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/cache/go-build \
    go build -trimpath -ldflags "-s -w" -o /out/assent ./cmd/assent
# The data folder must belong to the user of the final image: a new volume takes
# its owner from here.
RUN mkdir /out/data

# Certificates for calls to model providers, time zones, a user that is not
# root, and no shell.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/assent /usr/bin/assent
COPY --from=build --chown=65532:65532 /out/data /data
COPY LICENSE docs/third-party.md /usr/share/doc/assent/
# Inside a container loopback reaches nobody. Other addresses than loopback are
# served with authentication only.
ENV ASSENT_ADDR=0.0.0.0:8420 \
    ASSENT_DATA_DIR=/data
VOLUME /data
EXPOSE 8420
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/usr/bin/assent", "health"]
ENTRYPOINT ["/usr/bin/assent"]
CMD ["serve"]
