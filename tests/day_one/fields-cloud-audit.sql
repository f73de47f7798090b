-- expect: accepted
CREATE STREAM audit (
  at TIMESTAMP NOT NULL FROM '$.eventTime',
  who STRING FROM '$.userIdentity.arn',
  action STRING FROM 'eventName',
  first_role STRING FROM '$.roles[0].name',
  WATERMARK FOR at AS at - INTERVAL '15' MINUTES);
CREATE MATERIALIZED VIEW actions AS SELECT who, action, count(*) AS n FROM audit GROUP BY who, action, window(at, '1 hour');
