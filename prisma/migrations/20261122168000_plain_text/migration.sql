-- Types of schema mirror are none of a report's business: states, kinds and classes are text. A column of
-- a view can't change its type, so the views are made again, with their comments and grants.
DO $migration$
DECLARE
    "kept" text[];
    "statement" text;
BEGIN
    WITH "views" AS (
        SELECT c."oid", c."oid"::regclass::text AS "name", c."relacl", c."relowner"
        FROM pg_class AS c
        WHERE c."relnamespace" = 'reporting'::regnamespace
          AND c."relname" IN ('items', 'item_history', 'item_changes', 'purchases', 'sync_runs')
    ), "functions" AS (
        SELECT p."oid", p."oid"::regprocedure::text AS "name", p."proacl", p."proowner"
        FROM pg_proc AS p
        WHERE p."pronamespace" = 'reporting'::regnamespace AND p."proname" = 'items_as_of'
    ), "granted" AS (
        SELECT 'TABLE ' || "name" AS "what", '' AS "columns", "relacl" AS "acl", "relowner" AS "owner" FROM "views"
        UNION ALL
        SELECT 'TABLE ' || v."name", format(' (%I)', a."attname"), a."attacl", v."relowner"
        FROM "views" AS v JOIN pg_attribute AS a ON a."attrelid" = v."oid" AND a."attacl" IS NOT NULL
        UNION ALL
        SELECT 'FUNCTION ' || "name", '', "proacl", "proowner" FROM "functions"
    )
    SELECT array_agg("each"."statement") INTO "kept" FROM (
        SELECT format('COMMENT ON VIEW %s IS %L', "name", obj_description("oid", 'pg_class')) AS "statement" FROM "views"
        UNION ALL
        SELECT format('COMMENT ON COLUMN %s.%I IS %L', v."name", a."attname", col_description(v."oid", a."attnum"))
        FROM "views" AS v JOIN pg_attribute AS a ON a."attrelid" = v."oid" AND a."attnum" > 0
        UNION ALL
        SELECT format('COMMENT ON FUNCTION %s IS %L', "name", obj_description("oid", 'pg_proc')) FROM "functions"
        UNION ALL
        SELECT format('GRANT %s%s ON %s TO %s%s', a."privilege_type", g."columns", g."what",
                      CASE WHEN a."grantee" = 0 THEN 'PUBLIC' ELSE a."grantee"::regrole::text END,
                      CASE WHEN a."is_grantable" THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM "granted" AS g, aclexplode(g."acl") AS a
        WHERE a."grantee" <> g."owner"
    ) AS "each";

    DROP FUNCTION "reporting"."items_as_of"(timestamptz);
    DROP VIEW "reporting"."items", "reporting"."item_history", "reporting"."item_changes",
              "reporting"."purchases", "reporting"."sync_runs";

    CREATE VIEW "reporting"."items" AS
    SELECT
        "seller_id",
        "item_id",
        "name",
        "description",
        "category",
        "sub_category",
        "options",
        "version",
        "demo_link",
        "tags",
        "thumbnail_url",
        "preview_image_url",
        "preview_video_url",
        "preview_audio_url",
        "screenshots",
        "price_regular",
        "price_extended",
        "currency",
        "published_at",
        "state"::text AS "state",
        "first_seen_at",
        "changed_at",
        "removed_at",
        "synced_run_id"
    FROM "mirror"."items";

    CREATE VIEW "reporting"."item_history" AS
    SELECT
        "seller_id",
        "item_id",
        "name",
        "description",
        "category",
        "sub_category",
        "options",
        "version",
        "demo_link",
        "tags",
        "thumbnail_url",
        "preview_image_url",
        "preview_video_url",
        "preview_audio_url",
        "screenshots",
        "price_regular",
        "price_extended",
        "currency",
        "published_at",
        "state"::text AS "state",
        "first_seen_at",
        "changed_at",
        "removed_at",
        "synced_run_id",
        "valid_from",
        NULL::timestamptz AS "valid_to",
        NULL::bigint AS "superseded_run_id"
    FROM "mirror"."items"
    UNION ALL
    SELECT
        "seller_id",
        "item_id",
        "name",
        "description",
        "category",
        "sub_category",
        "options",
        "version",
        "demo_link",
        "tags",
        "thumbnail_url",
        "preview_image_url",
        "preview_video_url",
        "preview_audio_url",
        "screenshots",
        "price_regular",
        "price_extended",
        "currency",
        "published_at",
        "state"::text,
        "first_seen_at",
        "changed_at",
        "removed_at",
        "synced_run_id",
        "valid_from",
        "valid_to",
        "superseded_run_id"
    FROM "mirror"."item_versions";

    CREATE VIEW "reporting"."item_changes" AS
    SELECT
        "seq",
        "seller_id",
        "item_id",
        "run_id",
        "changed_at",
        "class"::text AS "class",
        "field",
        "old_value",
        "new_value"
    FROM "mirror"."item_changes";

    CREATE VIEW "reporting"."purchases" AS
    SELECT
        p."code_id",
        p."seller_id",
        p."code",
        p."item_id",
        coalesce(i."name", p."item_name") AS "item_name",
        i."state"::text AS "item_state",
        p."license_type",
        p."price",
        p."currency",
        p."purchased_at",
        p."supported_until",
        CASE
            WHEN p."supported_until" IS NULL THEN 'none'
            WHEN p."supported_until" > now() THEN 'active'
            ELSE 'expired'
        END AS "support",
        p."downloaded",
        p."verdict_since" AS "valid_since",
        p."first_checked_at",
        p."last_checked_at",
        p."answered_code"
    FROM "mirror"."sales" AS p
    LEFT JOIN "mirror"."items" AS i ON i."seller_id" = p."seller_id" AND i."item_id" = p."item_id";

    CREATE VIEW "reporting"."sync_runs" AS
    SELECT
        "run_id",
        "seller_id",
        "kind"::text AS "kind",
        "state"::text AS "state",
        "started_at",
        "finished_at",
        "holder",
        "listed",
        "added",
        "changed",
        "extra_changed",
        "unchanged",
        "restored",
        "missing",
        "removed",
        "quarantined",
        "duplicates",
        "api_calls",
        "bytes",
        "tolerated",
        "warnings",
        "problem_code",
        "problem",
        "job_id",
        "wide_fields",
        "decision"::text AS "decision",
        "decided_at",
        "decided_by",
        "approval_run_id"
    FROM "mirror"."runs";

    CREATE FUNCTION "reporting"."items_as_of"("moment" timestamptz)
    RETURNS TABLE (
        "seller_id" text,
        "item_id" bigint,
        "name" text,
        "description" text,
        "category" text,
        "sub_category" text,
        "options" text[],
        "version" text,
        "demo_link" text,
        "tags" text[],
        "thumbnail_url" text,
        "preview_image_url" text,
        "preview_video_url" text,
        "preview_audio_url" text,
        "screenshots" text[],
        "price_regular" numeric,
        "price_extended" numeric,
        "currency" text,
        "published_at" timestamptz,
        "state" text,
        "first_seen_at" timestamptz,
        "changed_at" timestamptz,
        "removed_at" timestamptz,
        "synced_run_id" bigint
    )
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT
        h."seller_id",
        h."item_id",
        h."name",
        h."description",
        h."category",
        h."sub_category",
        h."options",
        h."version",
        h."demo_link",
        h."tags",
        h."thumbnail_url",
        h."preview_image_url",
        h."preview_video_url",
        h."preview_audio_url",
        h."screenshots",
        h."price_regular",
        h."price_extended",
        h."currency",
        h."published_at",
        h."state",
        h."first_seen_at",
        h."changed_at",
        h."removed_at",
        h."synced_run_id"
    FROM "reporting"."item_history" AS h
    WHERE h."valid_from" <= "moment" AND (h."valid_to" > "moment" OR h."valid_to" IS NULL)
    $$;

    FOREACH "statement" IN ARRAY "kept" LOOP
        EXECUTE "statement";
    END LOOP;
END $migration$;

-- Without them the planner would take any state for rare, since it knows nothing of a type's text.
CREATE STATISTICS "mirror"."items_state_text" ON (("state")::text) FROM "mirror"."items";
CREATE STATISTICS "mirror"."item_versions_state_text" ON (("state")::text) FROM "mirror"."item_versions";
CREATE STATISTICS "mirror"."item_changes_class_text" ON (("class")::text) FROM "mirror"."item_changes";
ANALYZE "mirror"."items", "mirror"."item_versions", "mirror"."item_changes";
