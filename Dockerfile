# The image has the static binary, the CA certificates and a directory for the audit log, and nothing else.
#
#   docker build -t delegate-upgrader .     compiles in a container; for a cluster with
#       --build-arg FEATURES="--no-default-features --features kubernetes" --build-arg IMAGE_USER=65532:65532
#   make image                              uses a binary that is already built; pulls nothing
#   make dockerfile                         compiles in a container, on a local base; pulls nothing
#
# tests/lab/upgrader-image takes the stage `runtime` from here and adds the binary. A stage for that would fail here: the
# classic builder builds every stage, and the files would not be there.
ARG RUST_IMAGE=rust:1-alpine

FROM scratch AS runtime
ARG VERSION=dev
LABEL org.opencontainers.image.title="delegate-upgrader" \
      org.opencontainers.image.description="Keeps Harness Docker delegates healthy and current" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# On a host it runs as root, because it needs access to the Docker socket that is mounted into it.
ARG IMAGE_USER=0:0
USER ${IMAGE_USER}
# So that `docker exec NAME delegate-upgrader …` finds the program. Mounted credential helpers are found in the usual places.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/
# The container's own loopback address cannot be published.
ENV LISTEN_ADDR=0.0.0.0:9464
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/delegate-upgrader", "healthcheck"]
ENTRYPOINT ["/delegate-upgrader"]

FROM ${RUST_IMAGE} AS builder
# On Alpine; Debian's image of Rust (RUST_IMAGE=rust:1) has what it takes.
RUN if command -v apk; then apk add --no-cache gcc musl-dev ca-certificates; fi
WORKDIR /build
COPY Cargo.toml Cargo.lock ./
COPY build build
COPY docs/reference docs/reference
COPY src src
# Cargo reads the manifests of the whole workspace and requires each target that they name.
COPY examples examples
COPY tests tests
# `lab` compiles in half the time, and makes a larger binary.
ARG PROFILE=release
ARG FEATURES
# Only with an explicit target do the flags leave build scripts and procedural macros alone, which cannot be static with glibc.
RUN target=$(rustc -vV | sed -n 's/^host: //p') && \
    RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile "$PROFILE" --locked --bin delegate-upgrader $FEATURES --target "$target" && \
    mkdir -p /out/etc/ssl/certs /out/var/log/delegate-upgrader && \
    cp "target/$target/$PROFILE/delegate-upgrader" /out/ && \
    cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ && \
    chmod 1777 /out/var/log/delegate-upgrader

FROM runtime
# A new volume gets the mode of the directory on which it is mounted: any user can write an audit log there.
COPY --from=builder /out/ /
