CREATE SINK to_suppliers FROM stock WHERE in_stock < 20
  WITH (connector = 'kafka', topic = 'reorders', create = 'true');

CREATE SINK price_adjustments FROM demand WHERE price_percent <> 0
  WITH (connector = 'files', path = 'adjustments', format = 'json')
  EMIT ON WINDOW CLOSE;
