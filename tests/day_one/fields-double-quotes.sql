-- expect: accepted
CREATE STREAM "page_views" ("userId" STRING NOT NULL, "page-url" STRING, "viewTime" TIMESTAMP NOT NULL, WATERMARK FOR "viewTime" AS "viewTime" - INTERVAL '1' MINUTE);
CREATE MATERIALIZED VIEW per_page AS SELECT "page-url" AS page, count(DISTINCT "userId") AS users FROM "page_views" GROUP BY "page-url", window("viewTime", '1 hour');
