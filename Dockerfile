# Two stages: the first has the compilers, the second only what runs.
FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY scripts scripts
COPY src src
# npm ci builds as well (script "prepare").
RUN npm ci && npm prune --omit=dev --ignore-scripts

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/prisma prisma
COPY package.json check-node.cjs LICENSE ./
# The embedded database lives here when no DATABASE_URL is given: mount a volume then.
RUN mkdir data && chown node:node data
USER node
# Alive, not ready: a worker that waits for its database must not be restarted for it. The one-time
# commands end before it matters.
HEALTHCHECK --interval=30s --timeout=5s --start-period=1m \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8790/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["run"]
