-- A login link of an account. Null: of whoever may run commands on the store.
ALTER TABLE "mirror"."login_links" ADD COLUMN "user_name" TEXT;
ALTER TABLE "mirror"."login_links" ADD CONSTRAINT "login_links_user_name_fkey" FOREIGN KEY ("user_name")
  REFERENCES "mirror"."users"("name") ON DELETE CASCADE ON UPDATE CASCADE;

-- Who was invited logs in by a link, and has no password yet.
UPDATE "mirror"."users" SET "password_hash" = '' WHERE "password_hash" LIKE 'invited$%';
