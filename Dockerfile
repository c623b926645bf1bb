# The first stage builds; the second has only what runs.
FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY scripts scripts
COPY src src
# npm ci also builds (script "prepare").
RUN npm ci && npm prune --omit=dev --ignore-scripts

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/prisma prisma
COPY package.json check-node.cjs LICENSE ./
# Without DATABASE_URL, the embedded database is here: mount a volume.
RUN mkdir data && chown node:node data
USER node
# Checks that the process is alive, not ready: a worker that waits for its database must not be restarted.
# One-time commands end before the first check.
HEALTHCHECK --interval=30s --timeout=5s --start-period=1m \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8790/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["run"]
