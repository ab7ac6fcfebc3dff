# The same image as that of `make image`, which needs no Docker. For several architectures:
#   docker buildx build --platform linux/amd64,linux/arm64,linux/arm/v7 --build-arg VERSION=... .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG TARGETVARIANT
ARG VERSION=dev
ARG COMMIT=
RUN if [ "$TARGETARCH" = arm ]; then export GOARM="${TARGETVARIANT#v}"; fi; \
    GOOS="$TARGETOS" GOARCH="$TARGETARCH" make build VERSION="$VERSION" COMMIT="$COMMIT"

FROM scratch
ARG VERSION=dev
ARG COMMIT=
LABEL org.opencontainers.image.title="skiff" \
      org.opencontainers.image.description="Kubernetes controllers over plain HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /src/bin/skiff /src/LICENSE /src/cmd/skiff/THIRD_PARTY_LICENSES /
USER 65532:65532
ENTRYPOINT ["/skiff"]
