CREATE TABLE accounts (nodeid BIGINT PRIMARY KEY, isFraud INT);

CREATE STREAM transfers (
  source BIGINT NOT NULL FROM 'sourceNodeId',
  target BIGINT NOT NULL FROM 'targetNodeId',
  value  DECIMAL(12,2) NOT NULL,
  day    BIGINT NOT NULL FROM 'time',
  at     TIMESTAMP NOT NULL AS timestamp_seconds(1735689600 + 86400 * day),  -- day 0 is 2025-01-01
  WATERMARK FOR at AS at - INTERVAL 1 DAY
);

CREATE STREAM entries AS
SELECT target AS account, source AS sender, value AS received, 0 AS sent, at FROM transfers
UNION ALL
SELECT source, NULL, 0, value, at FROM transfers;

CREATE MATERIALIZED VIEW flows AS
SELECT account,
       count(DISTINCT sender)                        AS senders,
       sum(received)                                 AS received,
       sum(sent)                                     AS sent,
       senders >= 10 AND 100 * sent >= 80 * received AS suspicious
FROM entries
GROUP BY account, window(at, '10 days', '1 day');

CREATE ALERT mule AS
SELECT account, senders, received, sent
FROM flows
WHERE suspicious
WITH (severity = 'warning', summary = 'account {account} got {received} from {senders} senders and sent {sent} on');

CREATE VIEW verdicts AS
SELECT isFraud = 1 AS fraud, count(*) AS accounts, count(account) AS found
FROM accounts LEFT JOIN (SELECT DISTINCT account FROM flows WHERE suspicious) ON account = nodeid
GROUP BY ALL
ORDER BY fraud DESC;
