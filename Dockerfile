# syntax=docker/dockerfile:1
# Installs what package-lock.json names, without the embedded PostgreSQL: set DATABASE_URL.
# Layers whose files did not change come from the cache; a change of sources installs nothing again.
FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/npm npm ci --cache /npm --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY bin bin
COPY scripts scripts
COPY prisma prisma
COPY src src
RUN npm run build

FROM node:22-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN --mount=type=cache,target=/npm npm ci --cache /npm --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:22-slim
# docker build --build-arg VERSION=0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title="seller-mirror" \
  org.opencontainers.image.description="Mirrors a marketplace seller's account and items into PostgreSQL" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="$VERSION" \
  org.opencontainers.image.revision="$REVISION"
# The check below asks this port. HEALTH_LISTEN=0.0.0.0:8790 lets others ask it, too.
ENV NODE_ENV=production HEALTH_LISTEN=127.0.0.1:8790
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json LICENSE ./
COPY bin bin
COPY prisma prisma
COPY --from=build /app/dist dist
# The root may be read-only: only feeds and /tmp are written to. Lists and results come and go through /files.
RUN mkdir feeds /files && chown node:node feeds /files && ln -s /app/bin/seller-mirror.js /usr/local/bin/seller-mirror
USER node
# Checks that the process is alive, not ready: a worker that waits for its database must not be restarted.
# One-time commands end before the first check.
HEALTHCHECK --interval=30s --timeout=5s --start-period=1m \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8790/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["seller-mirror"]
CMD ["run"]
