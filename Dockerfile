# The same images as those of `make image`, which needs no Docker: skiff, and with --target skiff-dev the test cluster.
# For several architectures:
#   docker buildx build --platform linux/amd64,linux/arm64,linux/arm/v7 --build-arg VERSION=... .
FROM --platform=$BUILDPLATFORM golang:1.26 AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG TARGETVARIANT
ARG VERSION=dev
ARG COMMIT=
ENV GOOS="$TARGETOS" GOARCH="$TARGETARCH"

FROM source AS build
RUN if [ "$GOARCH" = arm ]; then export GOARM="${TARGETVARIANT#v}"; fi; \
    make build VERSION="$VERSION" COMMIT="$COMMIT"

# With CEL, from the packages of a real server: this takes minutes.
FROM source AS build-dev
RUN if [ "$GOARCH" = arm ]; then export GOARM="${TARGETVARIANT#v}"; fi; \
    make skiff-dev VERSION="$VERSION" COMMIT="$COMMIT"
RUN mkdir -p /rootfs && mkdir -m 1777 /rootfs/tmp

FROM scratch AS skiff-dev
ARG VERSION=dev
ARG COMMIT=
LABEL org.opencontainers.image.title="skiff-dev" \
      org.opencontainers.image.description="A Kubernetes test cluster in one process" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build-dev /src/bin/skiff-dev /src/LICENSE /src/internal/testcluster/cel/skiff-dev/THIRD_PARTY_LICENSES /
COPY --from=build-dev /rootfs/ /
ENV HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/skiff-dev"]

FROM scratch AS skiff
ARG VERSION=dev
ARG COMMIT=
LABEL org.opencontainers.image.title="skiff" \
      org.opencontainers.image.description="Write a Kubernetes controller as a script" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /src/bin/skiff /src/LICENSE /src/cmd/skiff/THIRD_PARTY_LICENSES /
USER 65532:65532
ENTRYPOINT ["/skiff"]
