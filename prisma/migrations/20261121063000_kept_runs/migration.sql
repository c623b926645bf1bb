-- Runs that found nothing new are deleted after a time where the settings say so.
COMMENT ON COLUMN "reporting"."catalogue_daily"."runs" IS 'Runs of the whole catalogue that mirrored it on that day (succeeded or held), as far as they are kept (KEEP_RUNS_DAYS). 0 tells a day on which nobody looked or, before the runs that are kept, on which nothing was found changed.';
