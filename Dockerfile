# The first stage packs the program. The second installs it as any project would, without the embedded PostgreSQL.
FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts LICENSE ./
COPY bin bin
COPY prisma prisma
COPY scripts scripts
COPY src src
# npm pack also builds (script "prepare").
RUN npm ci --ignore-scripts && npm pack

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/seller-mirror-*.tgz ./
RUN npm install --omit=optional --no-audit --no-fund ./seller-mirror-*.tgz && npm cache clean --force
RUN mkdir data feeds && chown node:node data feeds
USER node
# Checks that the process is alive, not ready: a worker that waits for its database must not be restarted.
# One-time commands end before the first check.
HEALTHCHECK --interval=30s --timeout=5s --start-period=1m \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8790/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "node_modules/seller-mirror/bin/seller-mirror.js"]
CMD ["run"]
