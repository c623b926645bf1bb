# Two stages: the first has the compilers, the second only what runs.
FROM node:22-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY src src
# npm ci builds as well (script "prepare").
RUN npm ci && npm prune --omit=dev

FROM node:22-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/prisma prisma
COPY package.json LICENSE ./
# The embedded database lives here when no DATABASE_URL is given: mount a volume then.
RUN mkdir data && chown node:node data
USER node
# Asks the database only, never the marketplace, whose requests are few.
HEALTHCHECK --interval=1m --timeout=15s --start-period=30s \
  CMD ["node", "dist/cli/main.js", "status"]
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["sync"]
