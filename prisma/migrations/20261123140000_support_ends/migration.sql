-- Each night the feeds ask whose support has ended since the last delivery. Without this, the answer was in
-- all rows of purchase_codes. Codes that were never valid, and purchases without support, are not in it.
CREATE INDEX "purchase_codes_support_end_idx" ON "mirror"."purchase_codes"("supported_until") WHERE ((verdict = 'valid') AND (supported_until IS NOT NULL));
